// Stop texts that end an answer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "decode/stop_text.h"
#include "tokenizer/tokenizer.h"

namespace lacuna {

/// Function by which decoders search for stop texts; empty if there are none. `tokenizer` outlives it.
StopFinder make_stop_finder(const Tokenizer& tokenizer, std::vector<std::string> texts);

/// The first stop text in `text` by its end, among those that end after byte `from`; empty stop texts are
/// ignored. Returns a view into `text`; without a match, the empty view at its end.
std::string_view first_stop(std::string_view text, const std::vector<std::string>& texts, size_t from = 0);
/// The part of `text` before first_stop().
std::string_view before_stop(std::string_view text, const std::vector<std::string>& texts);

}  // namespace lacuna
