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

/// The place in `text` of the one of `texts` that is the first to end in it after byte `from`: the one that a
/// text which grows from left to right meets first. Empty ones end nothing. Empty, at the end, if none does.
std::string_view first_stop(std::string_view text, const std::vector<std::string>& texts, size_t from = 0);
/// The part of `text` before that.
std::string_view before_stop(std::string_view text, const std::vector<std::string>& texts);

}  // namespace lacuna
