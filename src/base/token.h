#pragma once

#include <cstdint>

namespace lacuna {

/// A row of the embedding table, 0-based.
using TokenId = int32_t;

}  // namespace lacuna
