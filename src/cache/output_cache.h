// The last hidden state of each cell of one sequence, from which its logits can be recomputed.
#pragma once

#include <cstdint>

#include "base/buffer.h"
#include "base/matrix.h"

namespace lacuna {

/// [cells, hidden_dim] f32, after the final norm. Smaller than logits, which are recomputed bitwise
/// identically: the head's matmul is batch-invariant.
class OutputCache {
 public:
  OutputCache(int64_t num_cells, int64_t hidden_dim)
      : rows_(num_cells), dim_(hidden_dim), memory_(num_cells * hidden_dim) {}

  Matrix<float> rows() const { return {memory_.data(), rows_, dim_, dim_}; }

 private:
  int64_t rows_;
  int64_t dim_;
  Buffer<float> memory_;
};

}  // namespace lacuna
