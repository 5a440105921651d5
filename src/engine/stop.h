// Texts that end an answer, as people give them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "decode/stop_text.h"
#include "tokenizer/tokenizer.h"

namespace lacuna {

/// Function by which decoders search for stop texts; empty if there are none. `tokenizer` outlives it.
StopFinder make_stop_finder(const Tokenizer& tokenizer, std::vector<std::string> texts);

/// The part of `text` before the one of `texts` that is the first to end in it: the one that a text which
/// grows from left to right meets first. Empty ones end nothing.
std::string_view before_stop(std::string_view text, const std::vector<std::string>& texts);

}  // namespace lacuna
