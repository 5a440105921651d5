// The end of an answer that is written from left to right.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "base/token.h"
#include "lacuna/types.h"

namespace lacuna {

/// Number of first tokens of an answer that contain a stop text; nullopt if the answer has none. Decoders
/// have no tokenizer: engine/stop.h makes this function.
using StopFinder = std::function<std::optional<int32_t>(std::span<const TokenId> answer)>;

}  // namespace lacuna
