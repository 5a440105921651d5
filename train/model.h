// The transformer in LibTorch, for training: one for all families, which differ in a few flags.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "train/family.h"
#include "train/fused.h"

namespace lacuna::train {

// Deviations of GIDD's first weights: of matrices, times 1 / sqrt(width), and of embeddings.
inline constexpr double kGiddMatrices = 0.4;
inline constexpr double kGiddEmbeddings = 0.02;

/// Experts of families that have them. Their first layer has none.
struct ExpertShape {
  int64_t count = 8;       ///< a multiple of the groups, two or more in each
  int64_t per_token = 2;   ///< at most as many as kGroupsPerToken groups have
  int64_t ffn_width = 96;  ///< inner width of each, and of the one that serves every token
};
inline constexpr int64_t kExpertGroups = 4;
inline constexpr int64_t kGroupsPerToken = 2;
inline constexpr double kRoutedScale = 2.5;

/// Sizes that only diffusion-gemma has.
struct CanvasShape {
  int64_t length = 64;  ///< positions of a canvas
  int64_t window = 64;  ///< keys that a row of a sliding layer sees, its own included
};

struct ModelShape {
  Family family = Family::kLlada;
  int64_t layers = 4;
  int64_t width = 128;  ///< of the residual stream
  int64_t heads = 4;
  int64_t kv_heads =
      0;  ///< divides heads; as many query heads share each key and value; 0: every head has one
  int64_t head_size = 0;  ///< width of a head, even; 0: width / heads
  int64_t ffn_width = 384;
  int64_t vocabulary = 0;  ///< rows of the embedding, special tokens included
  bool tied_head = false;  ///< the head is the embedding
  double rope_theta = 10000;
  /// [rotary_width / 2] radians per position of each pair that rotates; empty: those of rope_theta.
  std::vector<float> rotations = {};
  double norm_epsilon = 0;   ///< 0: that of the family
  int64_t block_length = 8;  ///< of the objective kBlocks
  int64_t context = 1024;    ///< positions; with the objective kInterpolation every row fills them
  /// First phase of families that have one: the model is causal and learns the next token.
  bool left_to_right = false;
  /// Shift of hybrid noise: a replaced token at log-SNR l is uniform noise with probability sigmoid(l
  /// + shift), else the mask; empty: the family's noise alone.
  std::optional<double> uniform_shift = {};
  ExpertShape experts = {};
  CanvasShape canvas = {};

  int64_t head_width() const { return head_size > 0 ? head_size : width / heads; }
  int64_t num_kv_heads() const { return kv_heads > 0 ? kv_heads : heads; }
  double epsilon() const { return norm_epsilon > 0 ? norm_epsilon : traits().norm_epsilon; }
  double noise_shift() const {
    return uniform_shift.value_or(traits().uniform_noise ? kPureNoise : -kPureNoise);
  }
  /// Width of each head, even.
  int64_t rotary_width() const {
    return static_cast<int64_t>(traits().rotary_share * static_cast<double>(head_width()));
  }
  const FamilyTraits& traits() const { return traits_of(family); }
  Objective objective() const { return left_to_right ? Objective::kNextToken : traits().objective; }
  bool causal() const { return traits().causal || left_to_right; }
};

/// RMSNorm: x / sqrt(mean(x^2) + epsilon) * weight, or * (1 + weight) where weights are offsets; computed in
/// f32 whatever the type of x.
class RmsNormImpl : public torch::nn::Module {
 public:
  RmsNormImpl(int64_t width, const ModelShape& shape);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  torch::Tensor weight_;
  double epsilon_;
  bool offset_;
};
TORCH_MODULE(RmsNorm);

/// y = W x + b; with a low-rank update y = W x + b + s B (A x), where W and b stay as they are and A and B
/// are learned (lora_linear() of train/fused.h).
class ProjectionImpl : public torch::nn::LinearImpl {
 public:
  ProjectionImpl(int64_t inputs, int64_t outputs, bool has_bias = false);
  torch::Tensor forward(const torch::Tensor& x);

  /// Adds the parameters lora_a [rank, inputs], sampled evenly from +-1 / sqrt(inputs), and lora_b [outputs,
  /// rank], zeros: the update begins as nothing.
  void add_update(int64_t rank, double scale);
  bool has_update() const { return lora_a.defined(); }
  /// W + s B A; W without an update.
  torch::Tensor merged() const;

  torch::Tensor lora_a, lora_b;

 private:
  double scale_ = 0;
};
TORCH_MODULE(Projection);

/// down(silu(gate(x)) * up(x)).
class GatedImpl : public torch::nn::Module {
 public:
  GatedImpl(int64_t width, int64_t ffn_width);
  torch::Tensor forward(const torch::Tensor& x);

  torch::nn::Linear gate, up, down;
};
TORCH_MODULE(Gated);

/// A mixture of experts as LLaDA2 has it (models/llada2_moe of inclusionAI/dFactory). With scores
/// s = sigmoid(W x) and ranks r = s + bias: of four groups of neighbouring experts the two with the largest
/// sums of their two best ranks are open, of their experts the best ranks are chosen, and
///
///   y = shared(x) + sum over the chosen e of 2.5 s_e / (sum of the chosen s) * expert_e(x).
///
/// The bias is not learned by the loss, which it does not reach. It is moved towards an even load (Wang et
/// al. 2024, "Auxiliary-loss-free load balancing", arXiv 2408.15664): its gradient is in proportion to the
/// tokens that its expert had beyond the mean, and AdamW's steps are about as long whatever a gradient's
/// size.
class ExpertsImpl : public torch::nn::Module {
 public:
  explicit ExpertsImpl(const ModelShape& shape);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  int64_t per_token_;
  torch::Tensor router_;       // [experts, width]
  torch::Tensor expert_bias_;  // [experts]
  torch::nn::ModuleList experts_;
  Gated shared_;
};
TORCH_MODULE(Experts);

/// Mask [T, T] bool of positions that rows must not attend to, if a row attends to its own block of
/// neighbours and the blocks before.
torch::Tensor unseen_by_blocks(int64_t length, int64_t block_length);

/// Inputs that all blocks of a pass over T positions share.
struct Sequence {
  torch::Tensor cos, sin;  ///< [T, rotary_width / 2] or [B, 1, T, rotary_width / 2]: RoPE's rotations
  c10::intrusive_ptr<Visibility> visible;  ///< what a position attends to; a sink is one more key in front
};

/// One pre-norm block: attention over the sequence, then the feed-forward part.
class BlockImpl : public torch::nn::Module {
 public:
  BlockImpl(const ModelShape& shape, int64_t layer);
  /// x [B, T, width].
  torch::Tensor forward(const torch::Tensor& x, const Sequence& sequence);

 private:
  torch::Tensor attend(const torch::Tensor& h, const Sequence& sequence);
  torch::Tensor feed_forward(const torch::Tensor& h);

  const FamilyTraits* traits_;
  int64_t heads_, kv_heads_;
  double branch_scale_;  // of what attention and the feed-forward part add
  RmsNorm attn_norm_, ffn_norm_;
  Projection q_, k_, v_, o_;
  Projection gate_ = nullptr, up_ = nullptr, down_ = nullptr;  // no gate_ where the family has none
  Experts experts_ = nullptr;                                  // in the place of these three
  RmsNorm q_norm_ = nullptr, k_norm_ = nullptr;
  torch::Tensor k_sink_, v_sink_;  // [H, D]
};
TORCH_MODULE(Block);

class SelfConditioningImpl;

/// Rows of a pass that are denoised, of diffusion-gemma.
struct CanvasRows {
  int64_t begin = -1;  ///< the first of them, which the others follow; -1: there are none
  /// [B, T - begin, width]: mean embeddings under the distributions of an earlier pass, 0 for rows without;
  /// undefined: no row has one.
  torch::Tensor soft = {};
};

/// Low-rank updates of the matrices of blocks.
struct LoraShape {
  int64_t rank = 0;  ///< 0: none, and all weights are learned
  double alpha = 0;  ///< the update's factor s is alpha / rank
};

/// Its parameters are embedding, blocks.N.{attn_norm, q, k, v, q_norm, k_norm, o, ffn_norm, gate, up, down},
/// final_norm and head, each with .weight and perhaps .bias, blocks.N.{k_sink, v_sink}, and with experts, in
/// the place of gate, up and down, blocks.N.moe.{router, expert_bias} and
/// blocks.N.moe.{shared, experts.E}.{gate, up, down}.weight; export.h knows their published names.
/// diffusion-gemma has no head, the parameters of its own blocks (train/canvas_model.h), and
/// conditioning.{norm, gate, up, down}.weight.
class TransformerImpl : public torch::nn::Module {
 public:
  /// Samples the weights with LibTorch's global generator: normal with deviation 1 / sqrt(inputs), and
  /// smaller by sqrt(2 * layers) for the matrices that write to the residual stream. GIDD has its own:
  /// matrices with deviation 0.4 / sqrt(width), embeddings with 0.02, and a head of zeros.
  explicit TransformerImpl(const ModelShape& shape);

  /// The normalised hidden states [B, T, width] of tokens [B, T] (int64) at `positions` [B, T] (int64;
  /// undefined: the index in the row). Positions turn queries and keys; what a causal model attends to is
  /// decided by the order of the rows alone.
  ///   unseen  [T, T] or [B, 1, T, T] bool: what a row must not attend to; undefined: as the family has it
  torch::Tensor hidden(const torch::Tensor& tokens, const torch::Tensor& positions = {},
                       const torch::Tensor& unseen = {}, const CanvasRows& canvas = {});
  /// The same of the rows of the residual stream after each block, before the final norm.
  std::vector<torch::Tensor> residuals(const torch::Tensor& tokens, const torch::Tensor& positions,
                                       const torch::Tensor& unseen, const CanvasRows& canvas);
  torch::Tensor normed(const torch::Tensor& residual) { return final_norm_(residual); }

  /// Mean embeddings [..., width] under distributions [..., vocabulary].
  torch::Tensor soft_embedding(const torch::Tensor& probabilities);

  /// Logits [..., vocabulary] of hidden states [..., width].
  torch::Tensor logits(const torch::Tensor& hidden);

  /// The matrix [vocabulary, width] of the head, perhaps the embedding, and the factor of its logits.
  const torch::Tensor& head() const { return head_ ? head_->weight : embedding_->weight; }
  double logit_scale() const;

  const ModelShape& shape() const { return shape_; }

  /// Keeps the weights of linear maps and the embedding in `type`, which rounds them: all but norms, biases
  /// and low-rank updates.
  void keep_matrices_in(torch::ScalarType type);

  /// Whether the backward pass finds the activations of every block, or their inputs alone and computes the
  /// blocks again: less memory, a third more time. True at first.
  void keep_activations(bool keeps) { keeps_activations_ = keeps; }
  bool keeps_activations() const { return keeps_activations_; }

  /// Adds an update to every matrix of every block; all other weights are no longer learned. Families with
  /// blocks of their own, gidd's, llada2-moe's experts and diffusion-gemma's, have none: throws InputError.
  void add_lora(const LoraShape& lora);
  const LoraShape& lora() const { return lora_; }
  /// The parameters that are learned, with their names.
  torch::OrderedDict<std::string, torch::Tensor> learned() const;

 private:
  std::vector<torch::Tensor> canvas_residuals(const torch::Tensor& tokens, const torch::Tensor& positions,
                                              const torch::Tensor& unseen, const CanvasRows& canvas);

  ModelShape shape_;
  torch::nn::Embedding embedding_;
  torch::nn::ModuleList blocks_;
  RmsNorm final_norm_;
  torch::nn::Linear head_ = nullptr;  // none where it is the embedding
  LoraShape lora_;
  bool keeps_activations_ = true;
  std::shared_ptr<SelfConditioningImpl> conditioning_;
};
TORCH_MODULE(Transformer);

/// A copy of a model, whose matrices have its low-rank updates added: all of its weights are learned.
Transformer merged_model(const Transformer& model);

}  // namespace lacuna::train
