// The end of an answer that is written from left to right.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "base/token.h"
#include "lacuna/types.h"

namespace lacuna {

/// How many tokens of an answer it takes until it holds a text that ends it; nothing if it holds none.
/// Decoders know tokens only: who has the tokenizer makes one (engine/stop.h).
using StopFinder = std::function<std::optional<int32_t>(std::span<const TokenId> answer)>;

/// Why an answer ends with its last token; none: it continues.
///   options  of a decoder from left to right: end_ids, ignore_end, find_stop and gen_length
template <typename Options>
std::optional<StopReason> why_ended(const Options& options, std::span<const TokenId> answer) {
  const auto& ends = options.end_ids;
  if (!options.ignore_end && std::find(ends.begin(), ends.end(), answer.back()) != ends.end())
    return StopReason::kEndToken;
  if (options.find_stop && options.find_stop(answer)) return StopReason::kStopText;
  if (static_cast<int32_t>(answer.size()) == options.gen_length) return StopReason::kLength;
  return std::nullopt;
}

}  // namespace lacuna
