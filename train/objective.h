// Training objectives. Every objective is a weighted sum over tokens of the response: of -log p, except with
// uniform noise. The prompt is given.
//
// Masked diffusion (LLaDA: Nie et al. 2025, "Large Language Diffusion Models", equations 3 and 5). A ratio t
// is sampled uniformly from (0, 1]; each token of the response is replaced by the mask token with probability
// t, independently; the prompt never is. The model predicts the masked tokens, and the loss of one sample is
//
//   L = (1 / R) * sum over masked i of -log p(x_i | prompt, masked response) / max(t, 0.05),    R = tokens of
//   the response,
//
// Without the bound on 1 / t its expectation is an upper bound on the negative log-likelihood per response
// token. End tokens that fill the canvas belong to the response. Dream (Ye et al. 2025, "Dream 7B", section
// 3) has the same loss with p(x_i | ...) read from the row of position i - 1, as in the autoregressive model
// that Dream starts from. Its weights by the distance to unmasked tokens are left out: a token's weight is 1
// / t.
//
// --objective paper selects the published losses. LLaDA's (its guidelines' fine-tuning code) has no bound on
// 1 / t; each row has t = 0.001 + 0.999 u, u uniform; end tokens that fill the row have full weight and count
// in R. Dream's is context-adaptive rescheduling of noise (CART; Ye et al. 2025, section 3, as its published
// code computes it):
//
//   L = (1 / M) * sum over masked i of -log p(x_i | ...) * sum over clean j of p (1 - p)^(|i - j| - 1) / 2,
//
// M = masked tokens of the batch, j over the whole row, prompt and end tokens included, p = --cart-p.
//
// Confidence (LLaDA 2.0: Bie et al. 2025, arXiv 2512.15745, "confidence-aware parallel training"): with
// --confidence-weight c, c times the mean over the masked tokens of the batch of
//
//   [the most probable token is x_i] * H(p(. | ...)),    H the entropy in nats,
//
// is added to the loss of families that predict masks: correct predictions become more confident, so that a
// threshold accepts more tokens per pass. The sum of the two losses and the choice of tokens follow the model
// card's formula; the division by all masked tokens is ours.
//
// Next token (Qwen2.5, Qwen3; Yang et al. 2024 and 2025):
//
//   L = (1 / R) * sum over i of the response of -log p(x_i | x_0, ..., x_(i-1)),
//
// over the same rows: the model continues the answer with end tokens to the end of the canvas, as diffusion
// models do, so that it can judge or guide their canvases.
//
// Slots (ReFusion: Li et al. 2025, section 4.3, equations 1 to 3). The response is the answer and one end
// token; nothing after it is learned. It is cut into slots of k tokens (the last may be shorter), k sampled
// for each sample, and each slot is masked with probability m = 0.001 + 0.999 t, independently, as in the
// published code. (The paper masks exactly floor(t K) of K slots.) The model is causal in the order of the
// rows: prompt, clean slots shuffled, masked slots ascending; tokens keep their positions. Within a clean
// slot each row predicts the next token, so no row predicts the slot's first token; a masked row predicts its
// own token:
//
//   L = mean over predicting clean rows of the batch of -log p
//     + mean over samples of (1 / A) * sum over masked rows of -log p / max(m, 0.05),    A = tokens of the
//   response.
//
// A mean over no rows is 0. The clean rows of all samples are pooled and masked rows weigh 1 / m, as in the
// published code; the bound 0.05 on m is ours. With --objective paper, exactly floor(t K) slots are masked, t
// uniform in (0, 1), and the losses are equations 1 to 3:
//
//   L = mean over samples of (the mean over its predicting clean rows of -log p
//       + lambda * the mean over its masked rows of -log p),    lambda = 1 in the paper.
//
// Our own augmentation, --half-written-share: that share of the masked slots begins with 1 to k - 1 clean
// tokens, uniformly, like the slots that decoders are completing. The rows of these tokens predict the slot's
// next token and count as clean rows; the masks after them predict their own tokens.
//
// Blocks (SDAR: Cheng et al. 2025; the vectorized form of block diffusion, Arriola et al. 2025, section 3.2).
// The sequence is cut into blocks of b positions from position 0; each block samples its own ratio t and
// masks tokens of the response with probability t. One pass holds the clean sequence followed by the masked
// one at the same positions. A clean row sees the clean rows of its own and earlier blocks. A masked row sees
// the clean rows of earlier blocks and the masked rows of its own block, as in decoding, so one pass trains
// all blocks. (Blocks before the first one with tokens to learn need no masked rows, because no other block
// sees them.) Masked rows predict their own tokens:
//
//   L = (1 / R) * sum over masked i of -log p(x_i | clean blocks before, masked block) / max(t, 0.05).
//
// Fast-dLLM v2 (Wu et al. 2025, "Fast-dLLM v2: Efficient Block-Diffusion LLM", section 3) has two masked
// copies. The second masks the tokens of the response that the first shows, so that each token is learned
// exactly once and no weight depends on t:
//
//   L = (1 / R) * sum over i of the response of -log p(x_i | clean blocks before, the copy that masks i).
//
// There x_i is predicted by the row of i - 1, as in the autoregressive model that training starts from. This
// row belongs to the same copy, or to the clean sequence for the first token of a block, because a decoder
// has finished the block before by then.
//
// Strides (I-DLM: thuEcstasy/I-DLM, its published training code). The model is causal and every row predicts
// the token after its own. One pass holds the clean sequence followed by a copy in which the whole response
// is masked, cut into blocks of b masks from position 0. A row of the copy sees the clean rows of earlier
// blocks and the earlier rows of its own block, like the decoder's masks after a text.
//
//   L = mean over i of -log p(x_i | clean blocks before the row of i - 1, masks up to it)
//     + alpha * mean over i of the response of -log p(x_i | x_0, ..., x_(i-1)),
//
// where the first mean excludes the response's first token, because the row before it is clean. alpha = 0.2
// (--clean-weight); the published code's balancing of the two losses in each step is not implemented.
//
// Interpolated noise (GIDD: von Rütte et al. 2025, "Generalized Interpolating Discrete Diffusion", section 3,
// and the scaling study arXiv 2512.10858). At level t a token x becomes z, which is x with probability
// alpha = 1 - t and otherwise sampled from pi: any token but the mask (uniform noise) or the mask. Its
// log-SNR l = log(alpha / (1 - alpha)) is kept in [-9, 9]. With q(k | x) = alpha [k = x] + (1 - alpha) pi(k)
// and q(k | p) = alpha p(k) + (1 - alpha) pi(k), where the prediction p gives the mask no probability:
//
//   L_i = w * (KL(q(.|x) || q(.|p)) + r - log r - 1),    r = q(z | x) / q(z | p),
//   w = 1 if z is not x, otherwise 1 / (1 + n e^l), for uniform noise over n tokens;
//   w = [z is the mask] for masks, where L_i becomes alpha * -log p(x).
//
// With hybrid noise (--uniform-shift S; the scaling study's mixture) pi is uniform with probability s and the
// mask with 1 - s, s = sigmoid(l + S), and with w = (pi(z) - d pi(z) / d l) / (pi(z) + e^l [z = x]):
//
//   w = 1 + s if z is the mask, s if z is another token than x, s^2 / (s + n e^l) if z is x.
//
// This is the paper's bound without its division by the density of l, as in the published training code; its
// clip of w at 1000 has no effect with these two kinds of noise. The tokens from the first of the response,
// or from a later position, to the end of the row are noisy. Rows are of three kinds:
//
//   40%  whole: one level for all tokens;
//   40%  window: clean up to a random position in the canvas, then 4, 8, 16 or 32 tokens at one level, like a
//        decoder's current block, and after them pure noise that is not learned;
//   20%  each: a level for each token.
//
// The questions of drills stay clean, except after a window, so that both terms of a learned sum are visible.
// Noisy rows see all rows; clean rows see only clean ones, so that a decoder can cache their keys and values.
// L is the weighted mean of L_i over noisy tokens to be learned, replaced or not. Except in drills, tokens
// after the first `canvas` positions of the response have weight 0.1: rows fill the whole context, and easy
// end tokens would outweigh the answer.
//
// Canvases (DiffusionGemma: no paper; follows its published training code and fine-tuning recipes,
// google-deepmind/gemma gemma/diffusion and NVIDIA-NeMo/Automodel; the noise is uniform as in Austin et al.
// 2021, arXiv 2107.03006, self-conditioning is from Chen et al. 2022, arXiv 2208.04202). The response is cut
// into canvases of C positions; end tokens fill the last one. One pass holds the clean row, read causally,
// followed by one canvas of the row at its positions. The canvas's rows see each other and the clean rows
// before the canvas. With t uniform in (0, 1), each token of the canvas is replaced with probability t by one
// sampled uniformly from the whole vocabulary. All rows of the canvas predict their own clean tokens,
// replaced or not, and clean rows predict the next one:
//
//   L = (1 / C') * sum over i of the canvas of -log p(x_i | clean before, noisy canvas, q)
//     + (1 / R) * sum over i of the response of -log p(x_i | x_0, ..., x_(i-1)),
//
// where C' is the sum of the canvas's weights. In half of the rows the canvas also reads q: the predictions
// of a first pass, without q and without gradients, sharpened by a temperature uniform in [0.4, 0.8] like the
// decoder's (train/predict.h). The given tokens of drills stay clean and predict nothing. Positions of the
// canvas after the end of a drill's row are pure noise, because its text would continue.
//
// All sums over tokens of the response are weighted sums, and R is the sum of the weights (Batch::weights).
//
// Auxiliary targets (Batch::auxiliary) make rows of the prompt predict tokens that no decoder reads, such as
// whether the text contains a question's word. Their loss, the weighted sum of -log p, is added to that of
// the response. They teach features for which the answers alone are too few.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "train/family.h"

namespace lacuna::train {

/// Rows of equal length. The tensors are [B, T].
struct Batch {
  torch::Tensor tokens;          ///< int64
  torch::Tensor response;        ///< bool: tokens to learn; at least one per row, never the first
  torch::Tensor positions = {};  ///< int64: of the tokens; undefined: the index in the row
  torch::Tensor weights = {};    ///< f32: of the tokens in the losses; undefined: 1
  /// int64: the auxiliary target that the token's row predicts as well; -1: none. Undefined: no row has one.
  torch::Tensor auxiliary = {};
  torch::Tensor auxiliary_weights =
      {};                          ///< f32: weight of the auxiliary target in the loss of its batch entry
  torch::Tensor blocks_left = {};  ///< int64: number of layers left after the one that predicts it
};

/// Examples of one step: M rows of the pass each predict a token.
struct Examples {
  torch::Tensor inputs;     ///< [B, T] int64: input tokens
  torch::Tensor positions;  ///< [B, T] int64; undefined: the index in the row
  torch::Tensor unseen;     ///< [T, T] or [B, 1, T, T] bool: keys that a row must not attend to; undefined:
                            ///< the family's mask
  torch::Tensor rows;       ///< [M] int64: indices into [B * T] of the rows that predict
  torch::Tensor targets;    ///< [M] int64: tokens that they predict
  torch::Tensor weights;    ///< [M] f32: weight of each target in the loss of the batch
  int64_t suppressed = -1;  ///< a token that no row predicts; -1: none
  torch::Tensor log_snr = {};  ///< [M] f32: log-SNR of each token's noise; undefined: the losses are -log p
  int64_t canvas_begin = -1;   ///< the rows of the pass from this one on are a canvas; -1: there is none
  /// [B] f32: temperature of the first pass, for self-conditioning of the canvas; 0: no self-conditioning.
  /// Undefined: no canvas.
  torch::Tensor temperatures = {};
  /// [M] int64: number of layers left after the one from which the row predicts, through the final norm and
  /// the head; undefined: all rows predict after the last layer.
  torch::Tensor blocks_left = {};
  /// [M] f32: with log_snr, the share of uniform noise in each token's noise; the rest is suppressed tokens.
  torch::Tensor uniform_shares = {};
  /// [M] f32: weight of the prediction's entropy in the loss if its most probable token is the target;
  /// undefined: 0.
  torch::Tensor confidence_weights = {};
};

inline constexpr double kMinRatio = 1e-3;  // of masked tokens
inline constexpr double kMinWeightRatio =
    0.05;  // least t in the weight 1 / t, which could be huge in a row with few masked tokens
inline constexpr int64_t kFewTokens = 4;    // in a row with at most this many tokens to learn, all are masked
inline constexpr double kMaxLogSnr = 9;     // of either sign
inline constexpr double kTailWeight = 0.1;  // of end tokens that only fill the row
// Temperatures of the last and the first denoising step of a canvas.
inline constexpr double kLastTemperature = 0.4;
inline constexpr double kFirstTemperature = 0.8;
inline constexpr double kConditionedShare = 0.5;  // of the rows with a canvas

/// Masks a batch with random numbers that depend on seed and step alone. The ratios of a batch are spread
/// evenly over [kMinRatio, 1] (one random offset, equal distances), which lowers the variance of the loss.
/// Rows with at most kFewTokens tokens to learn have ratio 1.
///   copies_share  share of the rows with all occurrences of one random token masked and nothing else. They
///                 prepare for decoders that commit the two least certain tokens together at the end, as
///                 Dream's schedule does: a result and its copy must be predicted without seeing each other.
Examples masked_examples(const FamilyTraits& family, const Batch& batch, int64_t mask_id, uint64_t seed,
                         uint64_t step, double copies_share = 0);

/// The published loss of LLaDA, or with `cart_p` in (0, 1) Dream's. Ignores Batch::weights. The ratios are
/// spread like those of masked_examples().
Examples paper_masked_examples(const FamilyTraits& family, const Batch& batch, int64_t mask_id, uint64_t seed,
                               uint64_t step, std::optional<double> cart_p = {});

/// The examples with `weight` times the mean confidence loss of the rows that predict.
Examples with_confidence(Examples examples, double weight);

Examples next_token_examples(const Batch& batch);

/// Adds the batch's auxiliary targets. The rows of the pass must be those of the batch.
Examples with_auxiliary(Examples examples, const Batch& batch);

/// Contiguous tokens of a row of a batch.
struct Slot {
  int64_t first = 0;  ///< index in the row
  int64_t size = 0;
  int64_t written = 0;  ///< number of tokens at the start of a masked slot that are given
};

/// Slots of the response of one row.
struct SlotPlan {
  double ratio = 1;          ///< m
  std::vector<Slot> clean;   ///< in the order of the pass
  std::vector<Slot> masked;  ///< ascending
};

/// A plan for each row, with random numbers that depend on seed and step alone. The ratios are spread as for
/// masked_examples(). The tokens of each response must be contiguous. `half_written_share` of the masked
/// slots with more than one token are half-written.
std::vector<SlotPlan> sample_slot_plans(const Batch& batch, std::span<const int64_t> slot_sizes,
                                        uint64_t seed, uint64_t step, double half_written_share = 0);

/// sample_slot_plans(), but floor(ratio K) of the K slots of each row are masked, and none is half-written.
std::vector<SlotPlan> sample_paper_slot_plans(const Batch& batch, std::span<const int64_t> slot_sizes,
                                              uint64_t seed, uint64_t step);

/// The examples of slot plans, one for each row of the batch.
///   lambda  weight of masked rows in the paper's loss; without it the published code's loss
Examples slot_examples(const Batch& batch, const std::vector<SlotPlan>& plans, int64_t mask_id,
                       std::optional<double> lambda = {});

/// The pass has T clean rows, followed by the rows of each masked copy from the first block in which a row of
/// the batch has tokens to learn. Tokens of the prompt before it need one row each; the loss is the same.
///   least_weight_ratio  bounds the weights 1 / t
Examples block_examples(const FamilyTraits& family, const Batch& batch, int64_t block_length, int64_t mask_id,
                        uint64_t seed, uint64_t step, double least_weight_ratio = kMinWeightRatio);

/// The ratio of masked tokens of one block (0-based, of the row) in block_examples().
double block_ratio(const Batch& batch, int64_t row, int64_t block, uint64_t seed, uint64_t step);

/// Masks the whole response in blocks of `masks`, for a causal model. The pass is laid out as in
/// block_examples().
Examples strided_examples(const Batch& batch, int64_t masks, int64_t mask_id, double clean_weight);

struct ObjectiveOptions {
  int64_t mask_id = 0;
  std::vector<int64_t> slot_sizes;  ///< of the objective kSlots
  double half_written_share = 0;    ///< for sample_slot_plans()
  double copies_share = 0;          ///< for masked_examples()
  uint64_t seed = 1;
  int64_t block_length = 8;      ///< of the objectives kBlocks and kStrided
  bool is_paper = false;         ///< use the published loss; requires has_paper_objective()
  double lambda = 1;             ///< weight of masked slots in the paper's loss
  double cart_p = 0.1;           ///< p of CART, Dream's weights
  double confidence_weight = 0;  ///< for with_confidence(); requires has_masks()
  double clean_weight = 0.2;     ///< alpha of the objective kStrided
  // For the objective kInterpolation:
  int64_t canvas = 32;
  int64_t vocabulary = 0;
  std::optional<double> uniform_shift = {};  ///< hybrid noise; empty: the family's noise alone
  bool left_to_right = false;                ///< learn the next token instead
  // For the objective kCanvases, besides the vocabulary:
  int64_t canvas_length = 64;
  int64_t end_id = 0;
};

/// The share of uniform noise at a log-SNR: exactly 0 for shifts up to -kPureNoise, 1 from kPureNoise on.
double uniform_share(double log_snr, double shift);
/// The weight w of a token that is kept, or replaced by the mask or by another token.
///   share   share of uniform noise
///   others  n: tokens but the mask
double noise_weight(bool is_kept, bool is_mask, double log_snr, double share, int64_t others);

/// `family` selects uniform noise or masks if `options` has no shift.
Examples interpolation_examples(const FamilyTraits& family, const Batch& batch,
                                const ObjectiveOptions& options, uint64_t step);

/// The pass has T clean rows, followed by those of one canvas. Each row of the batch samples one of the
/// canvases that its response needs.
Examples canvas_examples(const Batch& batch, const ObjectiveOptions& options, uint64_t step);

bool has_paper_objective(const FamilyTraits& family);
/// Whether the family's objective predicts masked tokens only.
bool has_masks(const FamilyTraits& family);

/// Makes the examples of a family's objective.
Examples make_examples(const FamilyTraits& family, const Batch& batch, const ObjectiveOptions& options,
                       uint64_t step);

/// The examples of rows [first, last) of the batch: the losses of all parts add up to that of the whole.
Examples part_of(const Examples& examples, int64_t first, int64_t last);

/// Moves the examples to another device.
Examples moved(const Examples& examples, torch::Device device);

/// The loss of the batch. `logits` [M, vocabulary] are those of the predicting rows.
torch::Tensor weighted_loss(const torch::Tensor& logits, const Examples& examples);

}  // namespace lacuna::train
