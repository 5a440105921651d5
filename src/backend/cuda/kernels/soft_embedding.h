// Soft embeddings: the mean embedding under a distribution over tokens, input to the canvas's next pass. It
// is computed as a matmul of token weights with the transposed embedding.
#pragma once

#include <cstdint>

#include "backend/cuda/runtime.h"

namespace lacuna::cuda {

/// Request to store the soft embedding of a row.
struct SoftRequest {
  float* to = nullptr;  ///< [hidden] destination
  int32_t row = 0;      ///< row of the logits
  float slack = 0;      ///< LogitRow::soft_embedding_slack
};

struct TokenWeightArguments {
  const float* logits = nullptr;          ///< [*, stride], scaled and divided by the temperature
  const SoftRequest* requests = nullptr;  ///< [rows]
  uint16_t* out = nullptr;                ///< [rows, out_stride] bf16; the padding of rows becomes 0
  float* out_f32 = nullptr;               ///< used instead of `out`
  float* factors = nullptr;               ///< [rows]
  int64_t vocabulary = 0;
  int64_t stride = 0;
  int64_t out_stride = 0;
  float scale = 1;  ///< factor of embeddings
};

/// out = exp(logit - maximum), or 0 for the least likely tokens, of total probability at most `slack`; factor
/// = scale / (sum of all weights before). Tokens are left out as by leave_out_least_likely(), except that
/// bins are summed in integers, which do not depend on the order.
void weigh_tokens(Stream& stream, const TokenWeightArguments& arguments, uint32_t rows);

struct KeepArguments {
  const float* means = nullptr;  ///< [rows, hidden]
  const float* factors = nullptr;
  const SoftRequest* requests = nullptr;
  int64_t hidden = 0;
};

/// requests[r].to = factors[r] * means[r].
void keep_means(Stream& stream, const KeepArguments& arguments, uint32_t rows);

struct TransposeArguments {
  const uint16_t* from = nullptr;   ///< [rows, columns]
  const float* from_f32 = nullptr;  ///< used instead of `from`; then `to_f32` is written
  uint16_t* to = nullptr;           ///< [columns, stride]
  float* to_f32 = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t stride = 0;  ///< >= rows; the padding becomes 0
};

void transpose(Stream& stream, const TransposeArguments& arguments);

}  // namespace lacuna::cuda
