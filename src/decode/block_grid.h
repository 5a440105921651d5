// Where the blocks of a canvas begin.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace lacuna {

/// Blocks of one length, from position 0 on or behind a prompt that is a block of its own.
struct BlockGrid {
  int32_t length = 4;  ///< positions of a block
  int32_t prompt = 0;  ///< length of block 0 if it is the prompt (D2F); 0: it has `length`
  int32_t end = std::numeric_limits<int32_t>::max();  ///< maximum end of the last block

  int32_t begin_of(int32_t block) const {
    if (prompt == 0) return std::min(block * length, end);
    return block == 0 ? 0 : std::min(prompt + (block - 1) * length, end);
  }
  /// The block that holds a position.
  int32_t block_of(int32_t position) const {
    if (prompt == 0) return position / length;
    return position < prompt ? 0 : 1 + (position - prompt) / length;
  }
};

}  // namespace lacuna
