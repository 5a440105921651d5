// What the models learn. Every objective is a weighted sum of -log p over tokens of the response; the prompt
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
//
// Slots (ReFusion: Li et al. 2025, section 4.3, equations 1 to 3). The response is the answer and one end
// token; nothing behind it is learned. It is cut into slots of k tokens (the last may be shorter), k drawn
// for each sample, and each slot is masked with probability m, independently. (The paper masks exactly
// floor(t K) of K slots, its published code does what is done here: m = 0.001 + 0.999 t.) The model is causal
// in the order of the rows, which is: prompt, clean slots shuffled, masked slots ascending; tokens keep their
// positions. Within a clean slot each row predicts the token after it, so its first token is predicted by no
// row; a masked row predicts its own token:
//
//   L = mean over predicting clean rows of the batch of -log p
//     + mean over samples of (1 / A) * sum over masked rows of -log p / max(m, 0.05),    A = tokens of the
//   response.
//
// A mean over no rows is 0.
//
// Blocks (SDAR: Cheng et al. 2025; the vectorised form of block diffusion, Arriola et al. 2025, section 3.2).
// The sequence is cut into blocks of b positions from position 0; each block draws its own ratio t and masks
// tokens of the response with probability t. One pass holds the clean sequence and behind it the masked one,
// at the same positions: a clean row sees the clean rows of its own and earlier blocks, a masked row the
// clean rows of earlier blocks and the masked rows of its own, so that every block is learned at once from
// what it will see when it is written. Masked rows predict their own tokens:
//
//   L = (1 / R) * sum over masked i of -log p(x_i | clean blocks before, masked block) / max(t, 0.05).
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <span>
#include <vector>

#include "train/family.h"

namespace lacuna::train {

/// Rows of equal length. Both tensors are [B, T].
struct Batch {
  torch::Tensor tokens;    ///< int64
  torch::Tensor response;  ///< bool: tokens to learn; at least one per row, never the first
};

/// What a step asks of the model: M rows of the pass each predict a token.
struct Examples {
  torch::Tensor inputs;     ///< [B, T] int64: what the model sees
  torch::Tensor positions;  ///< [B, T] int64; undefined: the index in the row
  torch::Tensor unseen;     ///< [T, T] bool: what a row must not attend to; undefined: as the family has it
  torch::Tensor rows;       ///< [M] int64: indices into [B * T] of the rows that predict, ascending
  torch::Tensor targets;    ///< [M] int64: what they predict
  torch::Tensor weights;    ///< [M] f32: of each -log p in the loss of the batch
};

inline constexpr double kMinRatio = 1e-3;        // bounds the weight 1 / t
inline constexpr double kMinWeightRatio = 0.05;  // does so for masked slots, which come in larger lumps

/// Masks a batch with random numbers that depend on seed and step alone. The ratios of a batch are spread
/// evenly over [kMinRatio, 1] (one random offset, equal distances), which lowers the variance of the loss.
Examples masked_examples(const FamilyTraits& family, const Batch& batch, int64_t mask_id, uint64_t seed,
                         uint64_t step);

Examples next_token_examples(const Batch& batch);

/// Neighbouring tokens of a row of a batch.
struct Slot {
  int64_t first = 0;  ///< index in the row
  int64_t size = 0;
};

/// What becomes of the response of one row.
struct SlotPlan {
  double ratio = 1;          ///< m
  std::vector<Slot> clean;   ///< in the order of the pass
  std::vector<Slot> masked;  ///< ascending
};

/// A plan for each row, with random numbers that depend on seed and step alone. The ratios are spread as for
/// masked_examples(). The tokens of each response must be neighbours.
std::vector<SlotPlan> draw_slot_plans(const Batch& batch, std::span<const int64_t> slot_sizes, uint64_t seed,
                                      uint64_t step);

Examples slot_examples(const Batch& batch, const std::vector<SlotPlan>& plans, int64_t mask_id);

/// The pass has twice the rows of the batch: T clean ones, then T masked ones.
Examples block_examples(const Batch& batch, int64_t block_length, int64_t mask_id, uint64_t seed,
                        uint64_t step);

struct ObjectiveOptions {
  int64_t mask_id = 0;
  std::vector<int64_t> slot_sizes;  ///< of the objective kSlots
  uint64_t seed = 1;
  int64_t block_length = 8;  ///< of the objective kBlocks
};

/// The examples of a family's objective.
Examples make_examples(const FamilyTraits& family, const Batch& batch, const ObjectiveOptions& options,
                       uint64_t step);

/// What rows [first, last) of the batch contribute: the losses of all parts add up to that of the whole.
Examples part_of(const Examples& examples, int64_t first, int64_t last);

/// The loss of the batch. `logits` [M, vocabulary] are those of the predicting rows.
torch::Tensor weighted_loss(const torch::Tensor& logits, const Examples& examples);

}  // namespace lacuna::train
