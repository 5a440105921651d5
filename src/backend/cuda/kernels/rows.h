// Row kernels: embeddings, RMSNorm from the residual stream to rows of bf16 that products read and of what
// layers add to it, and the soft cap of logits.
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
  /// [rows] of hidden numbers each, in the place of `residual` and `rows`
  const float* const* row_pointers = nullptr;
  const float* weight = nullptr;  ///< [hidden]
  uint16_t* out = nullptr;        ///< [rows, stride] bf16; null: not wanted
  float* out_f32 = nullptr;       ///< [rows, hidden]; null: not wanted
  /// [rows] where each row's hidden numbers go in f32; null: not wanted
  float* const* out_f32_rows = nullptr;
  int64_t hidden = 0;
  int64_t stride = 0;  ///< >= hidden; what lies behind a row's numbers becomes 0
  float epsilon = 0;
  float* out_padded = nullptr;  ///< as `out` in f32, [rows, stride]; null: not wanted
};

/// out[r] = x / sqrt(mean(x^2) + epsilon) * weight with x = residual[rows[r]].
void rms_norm(Stream& stream, const NormArguments& arguments, uint32_t rows);

struct AddNormedArguments {
  const float* x = nullptr;       ///< [rows, hidden]
  const float* weight = nullptr;  ///< [hidden]
  float* residual = nullptr;      ///< [.., hidden]
  const int32_t* rows = nullptr;  ///< [rows] of the residual; null: 0, 1, 2, ...
  int64_t hidden = 0;
  float scale = 1;
  float epsilon = 0;
};

/// residual[rows[r]] += scale * norm(x[r]), with the norm of rms_norm().
void add_normed(Stream& stream, const AddNormedArguments& arguments, uint32_t rows);

struct SumOfNormsArguments {
  const float* x = nullptr;  ///< [rows, hidden]
  const float* y = nullptr;
  const float* x_weight = nullptr;  ///< [hidden]
  const float* y_weight = nullptr;
  float* out = nullptr;  ///< [rows, hidden]; may be x or y
  int64_t hidden = 0;
  float epsilon = 0;
};

/// out[r] = norm(x[r]) + norm(y[r]), each with a weight of its own.
void sum_of_norms(Stream& stream, const SumOfNormsArguments& arguments, uint32_t rows);

struct CanvasArguments {
  float* residual = nullptr;  ///< [.., hidden]
  /// [.. rows of the residual] whether the row is one of a canvas that is denoised: 0 or 1
  const int32_t* is_denoised = nullptr;
  const int32_t* rows = nullptr;  ///< [rows] of the residual; null: 0, 1, 2, ...
  int64_t hidden = 0;
  float epsilon = 0;      ///< of norm_canvases()
  float read_factor = 1;  ///< of scale_rows()
  float denoised_factor = 1;
};

/// Rows that are denoised: residual[r] = x / sqrt(mean(x^2) + epsilon).
void norm_canvases(Stream& stream, const CanvasArguments& arguments, uint32_t rows);

/// residual[r] *= denoised_factor where the row is denoised, else read_factor.
void scale_rows(Stream& stream, const CanvasArguments& arguments, uint32_t rows);

struct CapArguments {
  float* logits = nullptr;  ///< [rows, count]
  int64_t count = 0;
  float cap = 0;  ///< > 0
};

/// logits = cap * tanh(logits / cap).
void cap_logits(Stream& stream, const CapArguments& arguments, uint32_t rows);

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
