// What the models learn. Both objectives are a weighted sum of -log p over tokens of the response; the prompt
// is given.
//
// Masked diffusion (LLaDA: Nie et al. 2025, "Large Language Diffusion Models", equations 3 and 5). A ratio t
// is drawn uniformly from (0, 1]; each token of the response is replaced by the mask token with probability
// t, independently; the prompt never is. The model predicts the masked tokens, and the loss of one sample is
//
//   L = (1 / R) * sum over masked i of -log p(x_i | prompt, masked response) / t,    R = tokens of the
//   response,
//
// in expectation an upper bound on the negative log-likelihood per response token. End tokens that fill the
// canvas belong to the response. Dream (Ye et al. 2025, "Dream 7B", section 3) has the same loss with
// p(x_i | ...) read from the row of position i - 1, the place where the left-to-right model that it starts
// from predicts x_i. Its weights by the distance to unmasked tokens are left out: a token's weight is 1 / t.
//
// Next token (Qwen2.5, Qwen3; Yang et al. 2024 and 2025):
//
//   L = (1 / R) * sum over i of the response of -log p(x_i | x_0, ..., x_(i-1)),
//
// over the same rows: such a model continues the answer with end tokens to the end of the canvas, as the
// diffusion models do, and so can judge or guide a canvas of theirs.
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "train/family.h"

namespace lacuna::train {

/// Rows of equal length. Both tensors are [B, T].
struct Batch {
  torch::Tensor tokens;    ///< int64
  torch::Tensor response;  ///< bool: tokens to learn; at least one per row, never the first
};

/// What a step asks of the model.
struct Examples {
  torch::Tensor inputs;     ///< [B, T] int64: what the model sees
  torch::Tensor targets;    ///< [B, T] int64: the tokens of the batch
  torch::Tensor predicted;  ///< [B, T] bool: the targets that count; a row may have none
  torch::Tensor weight;     ///< [B] f32: of each of them in the loss of its row
};

inline constexpr double kMinRatio = 1e-3;  // bounds the weight 1 / t

/// Masks a batch with random numbers that depend on seed and step alone. The ratios of a batch are spread
/// evenly over [kMinRatio, 1] (one random offset, equal distances), which lowers the variance of the loss.
Examples masked_examples(const Batch& batch, int64_t mask_id, uint64_t seed, uint64_t step);

Examples next_token_examples(const Batch& batch);

/// The examples of a family's objective.
Examples make_examples(const FamilyTraits& family, const Batch& batch, int64_t mask_id, uint64_t seed,
                       uint64_t step);

/// Indices into [B * T] of the rows that predict, in row-major order of what they predict.
torch::Tensor predicting_rows(const FamilyTraits& family, const Examples& examples);

/// The mean of L over the rows. `logits` [M, vocabulary] are those of the predicting rows.
torch::Tensor weighted_loss(const torch::Tensor& logits, const Examples& examples);

}  // namespace lacuna::train
