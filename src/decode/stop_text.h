// Texts that end an answer.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "base/token.h"

namespace lacuna {

/// How many tokens of an answer it takes until it holds a text that ends it; nothing if it holds none.
/// Decoders know tokens only: who has the tokenizer makes one (engine/stop.h).
using StopFinder = std::function<std::optional<int32_t>(std::span<const TokenId> answer)>;

}  // namespace lacuna
