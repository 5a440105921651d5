// GEMM of few rows with a matrix, with fused epilogue.
#pragma once

#include <cstdint>

#include "backend/cuda/runtime.h"

namespace lacuna::cuda {

inline constexpr int64_t kDepthStep = 64;        ///< K of matrices and rows is padded to a multiple of it
inline constexpr int64_t kMaxDepthSlice = 4096;  ///< inputs per partial sum, at most
inline constexpr int64_t kMinDepthSlice = 512;   ///< and at least, if there are as many
inline constexpr int64_t kMaxSplit = 16;         ///< partial sums that blocks of their own compute, at most
inline constexpr int64_t kMaxProductRows = 128;

enum class Epilogue : uint8_t {
  kStore,        ///< out_f32 = sum + bias
  kAddScaled,    ///< out_f32 += scale * (sum + bias)
  kSwiglu,       ///< out_bf16 = silu(gate) * up; gate and up interleaved, eight outputs each
  kGeglu,        ///< kSwiglu with gelu(gate) (tanh approximation) instead of silu
  kSquaredRelu,  ///< out_bf16 = max(sum + bias, 0)^2
};

/// Whether the matrix has interleaved gate and up outputs.
constexpr bool is_gated(Epilogue epilogue) {
  return epilogue == Epilogue::kSwiglu || epilogue == Epilogue::kGeglu;
}

/// Meaning of an 8-bit quantized value.
enum class CodeFormat : uint8_t {
  kInt8,  ///< a signed integer
  kE4m3,  ///< a float with 4 bits of exponent and 3 of mantissa; never NaN
};

struct ProductArguments {
  const uint16_t* x = nullptr;        ///< [*, depth] bf16
  const float* x_f32 = nullptr;       ///< for f32_product(), instead of `x`; with `weights_f32`
  const int32_t* rows = nullptr;      ///< [num_rows] indices into x; null: 0, 1, 2, ...
  const uint16_t* weights = nullptr;  ///< [num_outputs, depth] bf16
  const float* weights_f32 = nullptr;
  const uint8_t* codes = nullptr;  ///< quantized weights instead of `weights`: weight = scales[output] * code
  CodeFormat code_format = CodeFormat::kInt8;
  const float* scales = nullptr;      ///< [num_outputs], only with `codes`
  const float* bias = nullptr;        ///< [num_outputs]; null: none
  float* out_f32 = nullptr;           ///< [num_rows, out_stride]
  uint16_t* out_bf16 = nullptr;       ///< [num_rows, out_stride]; padding after the outputs becomes 0
  const int32_t* out_rows = nullptr;  ///< [num_rows] indices into out; null: 0, 1, 2, ...
  int64_t num_rows = 0;               ///< at most kMaxProductRows
  int64_t num_outputs = 0;            ///< with is_gated(): gate and up together, a multiple of 16
  int64_t depth = 0;                  ///< a multiple of kDepthStep
  int64_t out_stride = 0;
  float scale = 1;
  Epilogue epilogue = Epilogue::kStore;
  /// [num_split(*this), num_rows, num_outputs], for blocks that compute a slice of K each; null: blocks
  /// compute all slices, one after the other, with the same bits.
  float* partials = nullptr;
  int64_t slice = kMaxDepthSlice;  ///< set by product() and wide_product(): slice_of()
};

/// Outputs of a thread block of product().
inline constexpr int kProductOutputs = 64;

/// Inputs per partial sum. Matrices with few outputs, whose blocks would leave most of a device without work,
/// have shorter slices. Depends on the matrix and its use alone, as a row's bits do.
int64_t slice_of(const ProductArguments& arguments);
/// Blocks that share the inputs of an output; 1: a block computes them all.
int64_t num_split(const ProductArguments& arguments);

/// Quantized weights are converted to bf16, which is exact, and accumulators are scaled. K is split into
/// slices, accumulated in steps of 16; partial sums are added in order. Batch-invariant: other rows do not
/// change the bits of a row.
void product(Stream& stream, const ProductArguments& arguments);

}  // namespace lacuna::cuda
