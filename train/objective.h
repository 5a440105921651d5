// The masked-diffusion objective of LLaDA (Nie et al. 2025, "Large Language Diffusion Models", equations 3
// and 5).
//
// A ratio t is drawn uniformly from (0, 1]; each token of the response is replaced by the mask token with
// probability t, independently; the prompt never is. The model predicts the masked tokens, and the loss of
// one sample is
//
//   L = (1 / R) * sum over masked i of -log p(x_i | prompt, masked response) / t,    R = tokens of the
//   response,
//
// in expectation an upper bound on the negative log-likelihood per response token. End tokens that fill the
// canvas belong to the response.
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace lacuna::train {

/// Rows of equal length. Both tensors are [B, T].
struct Batch {
  torch::Tensor tokens;    ///< int64
  torch::Tensor response;  ///< bool: tokens that may be masked; at least one per row
};

struct MaskedBatch {
  torch::Tensor tokens;  ///< [B, T] int64, with mask tokens
  torch::Tensor masked;  ///< [B, T] bool; a row may have none
  torch::Tensor ratio;   ///< [B] f32, in [kMinRatio, 1]
};

inline constexpr double kMinRatio = 1e-3;  // bounds the weight 1 / t

/// Masks a batch with random numbers that depend on seed and step alone. The ratios of a batch are spread
/// evenly over [kMinRatio, 1] (one random offset, equal distances), which lowers the variance of the loss.
MaskedBatch mask_batch(const Batch& batch, int64_t mask_id, uint64_t seed, uint64_t step);

/// The mean of L over the rows. `logits` [M, vocabulary] are those of the masked positions, in row-major
/// order.
torch::Tensor masked_loss(const torch::Tensor& logits, const Batch& batch, const MaskedBatch& masked);

}  // namespace lacuna::train
