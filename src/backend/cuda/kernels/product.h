// The product of few rows with a matrix, and what becomes of the sums at once.
#pragma once

#include <cstdint>

#include "backend/cuda/runtime.h"

namespace lacuna::cuda {

inline constexpr int64_t kDepthStep =
    64;  ///< the inputs of a matrix and of rows are padded to multiples of it
inline constexpr int64_t kDepthSlice = 4096;  ///< inputs that one chain of sums runs over
inline constexpr int64_t kMaxProductRows = 128;

enum class Epilogue : uint8_t {
  kStore,        ///< out_f32 = sum + bias
  kAddScaled,    ///< out_f32 += scale * (sum + bias)
  kSwiglu,       ///< out_bf16 = silu(gate) * up; eight outputs of gate, eight of up, and so on
  kGeglu,        ///< the same with gelu(gate), in the form with tanh
  kSquaredRelu,  ///< out_bf16 = max(sum + bias, 0)^2
};

/// Whether outputs are those of a gate and of what it gates.
constexpr bool is_gated(Epilogue epilogue) {
  return epilogue == Epilogue::kSwiglu || epilogue == Epilogue::kGeglu;
}

/// Meaning of an 8-bit quantized value.
enum class CodeFormat : uint8_t {
  kInt8,  ///< an integer with a sign
  kE4m3,  ///< a float with 4 bits of exponent and 3 of mantissa; codes of NaN do not occur
};

struct ProductArguments {
  const uint16_t* x = nullptr;        ///< [.., depth] bf16
  const float* x_f32 = nullptr;       ///< in the place of `x` and `weights_f32` of `weights`: f32_product()
  const int32_t* rows = nullptr;      ///< [num_rows] of x; null: 0, 1, 2, ...
  const uint16_t* weights = nullptr;  ///< [num_outputs, depth] bf16
  const float* weights_f32 = nullptr;
  const uint8_t* codes = nullptr;  ///< in the place of `weights`: weight = scale of the output * code
  CodeFormat code_format = CodeFormat::kInt8;
  const float* scales = nullptr;      ///< [num_outputs] of codes
  const float* bias = nullptr;        ///< [num_outputs]; null: none
  float* out_f32 = nullptr;           ///< [num_rows, out_stride]
  uint16_t* out_bf16 = nullptr;       ///< [num_rows, out_stride]; what is behind the outputs becomes 0
  const int32_t* out_rows = nullptr;  ///< [num_rows] of out; null: 0, 1, 2, ...
  int64_t num_rows = 0;               ///< at most kMaxProductRows
  int64_t num_outputs = 0;            ///< where is_gated() a multiple of 16: gate and up together
  int64_t depth = 0;                  ///< a multiple of kDepthStep
  int64_t out_stride = 0;
  float scale = 1;
  Epilogue epilogue = Epilogue::kStore;
};

/// Codes of both formats are widened to bf16, which is exact, and sums are scaled. An output is the sum over
/// k in slices of kDepthSlice, each one chain in steps of 16; the slices are added in order. Neither the
/// other rows nor their number change its bits.
void product(Stream& stream, const ProductArguments& arguments);

}  // namespace lacuna::cuda
