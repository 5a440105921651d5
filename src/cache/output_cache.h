// The last hidden state of each cell of one sequence: what it takes to compute a posterior again.
#pragma once

#include <cstdint>

#include "base/buffer.h"
#include "base/matrix.h"

namespace lacuna {

/// [cells, hidden_dim] f32, after the final norm. hidden_dim floats stand in for a vocabulary of logits: the
/// head is a product whose bits do not depend on its batch, so the logits come out as they were.
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
