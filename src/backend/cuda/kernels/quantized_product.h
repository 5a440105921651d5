// GEMM of few rows with group-quantized weights, which are converted to bf16 for the tensor cores.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/product.h"
#include "backend/cuda/runtime.h"

namespace lacuna::cuda {

inline constexpr int64_t kCodeGroup = 32;  ///< inputs that share a scale

/// Quantized values with a scale per group.
enum class GroupFormat : uint8_t {
  kInt4,     ///< two values per byte, the even input in the low nibble; weight = scale * (value - 8)
  kInt4Min,  ///< stored as kInt4; weight = scale * (value - 8) + minimum
  kInt8,     ///< signed integers; weight = scale * value
};

constexpr int bits_of(GroupFormat format) {
  return format == GroupFormat::kInt8 ? 8 : 4;
}

struct GroupedCodes {
  const uint8_t* values = nullptr;  ///< [outputs, depth * bits / 8]; null: weights have another format
  const float* scales = nullptr;    ///< [outputs, depth / kCodeGroup], fewer than 2^32
  const float* minimums = nullptr;  ///< [outputs, depth / kCodeGroup], only for kInt4Min
  GroupFormat format = GroupFormat::kInt4;
};

struct QuantizedProductArguments {
  ProductArguments product;  ///< `weights` is not read
  GroupedCodes codes;
};

/// Quantized values are exact in bf16. Each group has its own accumulator, which is scaled and added in
/// order; minimums are multiplied with the sum of the group's inputs. Batch-invariant. For 8-bit values with
/// a scale per output use product().
void quantized_product(Stream& stream, const QuantizedProductArguments& arguments);

}  // namespace lacuna::cuda
