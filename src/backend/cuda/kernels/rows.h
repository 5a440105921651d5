// Row kernels: embeddings, RMSNorm of matmul inputs and of layer outputs, canvas rows, and the soft cap of
// logits.
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
  const float* table_f32 = nullptr;  ///< used instead of `table`
};

/// residual[r] = scale * table[tokens[r]].
void embed(Stream& stream, const EmbedArguments& arguments, uint32_t rows);

struct MixArguments {
  EmbedArguments embedded;         ///< arguments of embed(), which filled the residual
  const float* weights = nullptr;  ///< [rows]; 1: the row stays
  int64_t mask_id = 0;
};

/// Mixes rows with the mask's embedding (MixedRow in model/plan.h).
void mix_with_mask(Stream& stream, const MixArguments& arguments, uint32_t rows);

struct NormArguments {
  const float* residual = nullptr;  ///< [*, hidden]
  const int32_t* rows = nullptr;    ///< [rows] indices into the residual; null: 0, 1, 2, ...
  /// [rows] pointers to [hidden], used instead of `residual` and `rows`
  const float* const* row_pointers = nullptr;
  const float* weight = nullptr;  ///< [hidden]
  uint16_t* out = nullptr;        ///< [rows, stride] bf16; null: not wanted
  float* out_f32 = nullptr;       ///< [rows, hidden]; null: not wanted
  /// [rows] pointers to [hidden] f32 outputs; null: not wanted
  float* const* out_f32_rows = nullptr;
  int64_t hidden = 0;
  int64_t stride = 0;  ///< >= hidden; the padding of rows becomes 0
  float epsilon = 0;
  float* out_padded = nullptr;  ///< [rows, stride] f32, zero-padded as `out`; null: not wanted
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

/// out[r] = norm(x[r]) + norm(y[r]), with x_weight and y_weight.
void sum_of_norms(Stream& stream, const SumOfNormsArguments& arguments, uint32_t rows);

struct CanvasArguments {
  float* residual = nullptr;  ///< [*, hidden]
  /// [rows of the residual] 1 if the row belongs to a canvas that is denoised, else 0
  const int32_t* is_denoised = nullptr;
  const int32_t* rows = nullptr;  ///< [rows] of the residual; null: 0, 1, 2, ...
  int64_t hidden = 0;
  float epsilon = 0;  ///< only for norm_canvases()
  // Only for scale_rows():
  float read_factor = 1;
  float denoised_factor = 1;
};

/// For denoised rows: residual[r] = x / sqrt(mean(x^2) + epsilon).
void norm_canvases(Stream& stream, const CanvasArguments& arguments, uint32_t rows);

/// residual[r] *= denoised_factor for denoised rows, read_factor for others.
void scale_rows(Stream& stream, const CanvasArguments& arguments, uint32_t rows);

struct CapArguments {
  float* logits = nullptr;  ///< [rows, count]
  int64_t count = 0;
  float cap = 0;  ///< > 0
};

/// logits = cap * tanh(logits / cap).
void cap_logits(Stream& stream, const CapArguments& arguments, uint32_t rows);

struct RoundArguments {
  const float* const* rows = nullptr;  ///< [rows] pointers to [hidden]
  uint16_t* out = nullptr;             ///< [rows, stride] bf16
  int64_t hidden = 0;
  int64_t stride = 0;        ///< >= hidden; the padding of rows becomes 0
  float* out_f32 = nullptr;  ///< used instead of `out`, without rounding
};

/// Gathers rows from device memory as matmul inputs: rounded to bf16, or copied as f32.
void round_rows(Stream& stream, const RoundArguments& arguments, uint32_t rows);

}  // namespace lacuna::cuda
