// A StoredMatrix without a file.
#pragma once

#include <cstdint>

#include "base/rng.h"
#include "weights/stored_matrix.h"

namespace lacuna {

/// Values in [-1, 1) that depend on row and column.
class RandomMatrix : public StoredMatrix {
 public:
  explicit RandomMatrix(int64_t inputs) : inputs_(inputs) {}
  void read(int64_t n, float* out) const override {
    const RngStream random(1, n);
    for (int64_t k = 0; k < inputs_; ++k)
      out[k] = static_cast<float>(2 * random.uniform(static_cast<uint64_t>(k)) - 1);
  }

 private:
  int64_t inputs_;
};

}  // namespace lacuna
