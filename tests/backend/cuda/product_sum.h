// An element of a product as tests compute it, to compare kernels with.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "backend/cuda/kernels/product.h"
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

/// The value of an e4m3 code, by its definition: a sign, four bits of exponent with bias 7, three of
/// mantissa.
inline float e4m3_value(uint8_t code) {
  const int exponent = code >> 3 & 15;
  const int mantissa = code & 7;
  const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                        : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return code >> 7 != 0 ? -magnitude : magnitude;
}

/// The activation function of a gate, by its definition.
inline double activated_gate(Epilogue epilogue, double gate) {
  if (epilogue == Epilogue::kSwiglu) return gate / (1 + std::exp(-gate));
  return gate / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (gate + 0.044715 * gate * gate * gate)));
}

}  // namespace lacuna::cuda
