// Row kernels: embeddings, and RMSNorm from the residual stream to rows of bf16 that products read.
#pragma once

#include <cstdint>

#include "backend/cuda/runtime.h"

namespace lacuna::cuda {

struct EmbedArguments {
  const int32_t* tokens = nullptr;  ///< [rows]
  const uint16_t* table = nullptr;  ///< [vocabulary, hidden] bf16
  float* residual = nullptr;        ///< [rows, hidden]
  int64_t hidden = 0;
  float scale = 1;
  const float* table_f32 = nullptr;  ///< in the place of `table`
};

/// residual[r] = scale * table[tokens[r]].
void embed(Stream& stream, const EmbedArguments& arguments, uint32_t rows);

struct NormArguments {
  const float* residual = nullptr;  ///< [.., hidden]
  const int32_t* rows = nullptr;    ///< [rows] of the residual; null: 0, 1, 2, ...
  const float* weight = nullptr;    ///< [hidden]
  uint16_t* out = nullptr;          ///< [rows, stride] bf16; null: not wanted
  float* out_f32 = nullptr;         ///< [rows, hidden]; null: not wanted
  /// [rows] where each row's hidden numbers go in f32; null: not wanted
  float* const* out_f32_rows = nullptr;
  int64_t hidden = 0;
  int64_t stride = 0;  ///< >= hidden; what lies behind a row's numbers becomes 0
  float epsilon = 0;
  float* out_padded = nullptr;  ///< as `out` in f32, [rows, stride]; null: not wanted
};

/// out[r] = x / sqrt(mean(x^2) + epsilon) * weight with x = residual[rows[r]].
void rms_norm(Stream& stream, const NormArguments& arguments, uint32_t rows);

struct RoundArguments {
  const float* const* rows = nullptr;  ///< [rows] of hidden numbers each
  uint16_t* out = nullptr;             ///< [rows, stride] bf16
  int64_t hidden = 0;
  int64_t stride = 0;        ///< >= hidden; what lies behind a row's numbers becomes 0
  float* out_f32 = nullptr;  ///< in the place of `out`: the numbers as they are
};

/// Rows from anywhere on the device, rounded to bf16 for a product, or copied for one in f32.
void round_rows(Stream& stream, const RoundArguments& arguments, uint32_t rows);

}  // namespace lacuna::cuda
