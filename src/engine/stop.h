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

/// The part of `text` before the first of `texts` in it.
std::string_view before_stop(std::string_view text, const std::vector<std::string>& texts);

}  // namespace lacuna
