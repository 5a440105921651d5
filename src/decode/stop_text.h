// The end of an answer that is written from left to right.
#pragma once

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

}  // namespace lacuna
