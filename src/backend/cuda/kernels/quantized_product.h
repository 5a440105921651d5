// The product of few rows with a matrix of quantized values whose groups of inputs have a scale each. They
// become bf16 on the way to the tensor cores.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/product.h"
#include "backend/cuda/runtime.h"

namespace lacuna::cuda {

inline constexpr int64_t kCodeGroup = 32;  ///< inputs that share a scale

/// Quantized values with a scale per group.
enum class GroupFormat : uint8_t {
  kInt4,     ///< two values to a byte, the even input in the lower half; weight = scale * (value - 8)
  kInt4Min,  ///< the same bytes; weight = scale * (value - 8) + minimum
  kInt8,     ///< integers with a sign; weight = scale * value
};

constexpr int bits_of(GroupFormat format) {
  return format == GroupFormat::kInt8 ? 8 : 4;
}

struct GroupedCodes {
  const uint8_t* values = nullptr;  ///< [outputs, depth * bits / 8]; null: weights are not in such a format
  const float* scales = nullptr;    ///< [outputs, depth / kCodeGroup], fewer than 2^32
  const float* minimums = nullptr;  ///< likewise; of kInt4Min alone
  GroupFormat format = GroupFormat::kInt4;
};

struct QuantizedProductArguments {
  ProductArguments product;  ///< `weights` is not read
  GroupedCodes codes;
};

/// Quantized values are exact in bf16. Each group is a chain of sums, scaled and added in order; a minimum is
/// multiplied with the sum of the group's inputs, which is such a chain, too. The rows of a call do not
/// change each other's bits. 8-bit values with a scale per output: product().
void quantized_product(Stream& stream, const QuantizedProductArguments& arguments);

}  // namespace lacuna::cuda
