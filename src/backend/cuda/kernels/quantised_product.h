// The product of few rows with a matrix of 4-bit codes, which become bf16 on the way to the tensor cores.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/product.h"
#include "backend/cuda/runtime.h"

namespace lacuna::cuda {

inline constexpr int64_t kCodeGroup = 32;  ///< inputs that share a scale

struct QuantisedProductArguments {
  ProductArguments product;  ///< `weights` is not read
  /// [num_outputs, depth / 2], the even input in the lower half; weight = scale * (code - 8).
  const uint8_t* codes = nullptr;
  const float* scales = nullptr;  ///< [num_outputs, depth / kCodeGroup]
};

/// Codes are exact in bf16. Each group is a chain of sums, scaled and added in order. The rows of a call do
/// not change each other's bits. 8-bit quantized values: product().
void quantised_product(Stream& stream, const QuantisedProductArguments& arguments);

}  // namespace lacuna::cuda
