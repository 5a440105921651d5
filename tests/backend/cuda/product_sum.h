// An element of a product as tests compute it, to compare kernels with.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "bench/gpu/device_vectors.h"

namespace lacuna::cuda {

struct ProductSum {
  double value = 0;
  double magnitude = 0;  ///< sum of the terms' magnitudes, which bounds the rounding error of f32
};

/// The sum over k of x[row, k] * weight(k).
///   x  bf16 [rows, depth]
template <typename Weight>
ProductSum product_sum(const std::vector<uint16_t>& x, int64_t row, int64_t depth, const Weight& weight) {
  ProductSum sum;
  for (int64_t k = 0; k < depth; ++k) {
    const double product = from_bits(x[static_cast<size_t>(row * depth + k)]) * double{weight(k)};
    sum.value += product;
    sum.magnitude += std::abs(product);
  }
  return sum;
}

}  // namespace lacuna::cuda
