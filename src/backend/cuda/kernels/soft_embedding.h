// Soft embeddings: the mean embedding under a distribution over tokens, which a canvas reads in its next
// pass. The mean is a product of the tokens' weights with the transposed embedding.
#pragma once

#include <cstdint>

#include "backend/cuda/runtime.h"

namespace lacuna::cuda {

/// A row that keeps a soft embedding.
struct SoftRequest {
  float* to = nullptr;  ///< [hidden] where it is kept
  int32_t row = 0;      ///< of the logits
  float slack = 0;      ///< LogitRow::soft_embedding_slack
};

struct TokenWeightArguments {
  const float* logits = nullptr;          ///< [.., stride], as their distribution is measured
  const SoftRequest* requests = nullptr;  ///< [rows]
  uint16_t* out = nullptr;   ///< [rows, out_stride] bf16; what lies behind a row's weights becomes 0
  float* out_f32 = nullptr;  ///< in the place of `out`
  float* factors = nullptr;  ///< [rows]
  int64_t vocabulary = 0;
  int64_t stride = 0;
  int64_t out_stride = 0;
  float scale = 1;  ///< of embeddings
};

/// out = exp(logit - largest logit), and 0 for the least likely tokens, of the probability `slack` together
/// at most; factor = scale / the sum of all weights before. leave_out_least_likely() has the rule of what is
/// left out; here sums of its bins are of integers, which do not depend on an order.
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
  const float* from_f32 = nullptr;  ///< in the place of `from`; `to_f32` is then written
  uint16_t* to = nullptr;           ///< [columns, stride]
  float* to_f32 = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t stride = 0;  ///< >= rows; what lies behind a row's numbers becomes 0
};

void transpose(Stream& stream, const TransposeArguments& arguments);

}  // namespace lacuna::cuda
