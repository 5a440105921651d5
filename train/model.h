// The transformer in LibTorch, for training: one class for all families, which differ in FamilyTraits.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "train/family.h"
#include "train/fused.h"

namespace lacuna::train {

// Standard deviations of GIDD's initial weights: kGiddMatrices / sqrt(width) and kGiddEmbeddings.
inline constexpr double kGiddMatrices = 0.4;
inline constexpr double kGiddEmbeddings = 0.02;

/// Mixture of experts; the first layer has none.
struct ExpertShape {
  int64_t count = 8;       ///< a multiple of kExpertGroups, two or more experts in each group
  int64_t per_token = 2;   ///< at most the number of experts in kGroupsPerToken groups
  int64_t ffn_width = 96;  ///< inner width of each expert and of the shared one
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
  int64_t kv_heads = 0;   ///< divides `heads`; 0: `heads`
  int64_t head_size = 0;  ///< width of a head, even; 0: width / heads
  int64_t ffn_width = 384;
  int64_t vocabulary = 0;  ///< rows of the embedding, special tokens included
  bool tied_head = false;  ///< the head is the embedding
  double rope_theta = 10000;
  /// [rotary_width / 2] radians per position of each pair that rotates; empty: those of rope_theta.
  std::vector<float> rotations = {};
  double norm_epsilon = 0;   ///< 0: that of the family
  int64_t block_length = 8;  ///< objective kBlocks
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
  /// Number of dimensions of a head that RoPE rotates, even.
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

/// y = W x + b; with a low-rank update y = W x + b + s B (A x), where W and b are frozen and A and B are
/// learned (lora_linear() of train/fused.h).
class ProjectionImpl : public torch::nn::LinearImpl {
 public:
  ProjectionImpl(int64_t inputs, int64_t outputs, bool has_bias = false);
  torch::Tensor forward(const torch::Tensor& x);

  /// Adds the parameters lora_a [rank, inputs], uniform in +-1 / sqrt(inputs), and lora_b [outputs, rank],
  /// zeros: initially the update has no effect.
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

/// LLaDA2's mixture of experts (models/llada2_moe of inclusionAI/dFactory). Scores are s = sigmoid(W x), and
/// ranks are r = s + bias. Of kExpertGroups groups of adjacent experts, the two with the largest sums of
/// their two highest ranks are eligible. The experts with the highest ranks in these groups are chosen, and
///
///   y = shared(x) + sum over the chosen e of 2.5 s_e / (sum of the chosen s) * expert_e(x).
///
/// The loss has no gradient for the bias, which instead balances the load of the experts (Wang et al. 2024,
/// "Auxiliary-loss-free load balancing", arXiv 2408.15664). Its gradient is proportional to the number of
/// tokens of its expert beyond the mean; AdamW's step size hardly depends on a gradient's magnitude.
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

/// Mask [T, T] bool of keys that rows must not attend to if a row attends to its own block of positions and
/// to earlier blocks.
torch::Tensor unseen_by_blocks(int64_t length, int64_t block_length);

/// Inputs that all blocks of a pass over T positions share.
struct Sequence {
  torch::Tensor cos, sin;  ///< [T, rotary_width / 2] or [B, 1, T, rotary_width / 2]: RoPE's rotations
  c10::intrusive_ptr<Visibility> visible;  ///< attention mask; a sink is one more key in front
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
  double branch_scale_;  // scale of the outputs of attention and the feed-forward part
  RmsNorm attn_norm_, ffn_norm_;
  Projection q_, k_, v_, o_;
  Projection gate_ = nullptr, up_ = nullptr, down_ = nullptr;  // gate_ is null with squared_relu
  Experts experts_ = nullptr;                                  // replaces these three
  RmsNorm q_norm_ = nullptr, k_norm_ = nullptr;
  torch::Tensor k_sink_, v_sink_;  // [H, D]
};
TORCH_MODULE(Block);

class SelfConditioningImpl;

/// Rows of a pass of diffusion-gemma that are denoised: [begin, T).
struct CanvasRows {
  int64_t begin = -1;  ///< first such row; -1: none
  /// [B, T - begin, width]: self-conditioning, the mean embeddings under an earlier pass's distributions; 0
  /// for rows without. Undefined: no row has any.
  torch::Tensor soft = {};
};

/// Low-rank updates (LoRA) of the matrices of transformer blocks.
struct LoraShape {
  int64_t rank = 0;  ///< 0: none, and all weights are learned
  double alpha = 0;  ///< the update's factor s is alpha / rank
};

/// Parameter names (names.h maps them to published ones):
///   embedding, final_norm and head, each with .weight
///   blocks.N.{attn_norm, q, k, v, q_norm, k_norm, o, ffn_norm, gate, up, down}.weight, some also with .bias
///   blocks.N.{k_sink, v_sink}
///   with experts, instead of gate, up and down: blocks.N.moe.{router, expert_bias} and
///     blocks.N.moe.{shared, experts.E}.{gate, up, down}.weight
///   diffusion-gemma: the parameters of its own blocks (train/canvas_model.h), no head, and
///     conditioning.{norm, gate, up, down}.weight
class TransformerImpl : public torch::nn::Module {
 public:
  /// Samples the weights with LibTorch's global generator: normal with deviation 1 / sqrt(inputs), and
  /// smaller by sqrt(2 * layers) for the matrices that write to the residual stream. GIDD differs: matrices
  /// have deviation kGiddMatrices / sqrt(width), embeddings kGiddEmbeddings, and the head is zero.
  explicit TransformerImpl(const ModelShape& shape);

  /// The normalized hidden states [B, T, width] of tokens [B, T] (int64) at `positions` [B, T] (int64;
  /// undefined: the index in the row). Positions affect RoPE only; causal masks follow the order of rows.
  ///   unseen  [T, T] or [B, 1, T, T] bool: keys that a row must not attend to; undefined: the family's mask
  torch::Tensor hidden(const torch::Tensor& tokens, const torch::Tensor& positions = {},
                       const torch::Tensor& unseen = {}, const CanvasRows& canvas = {});
  /// The residual stream [B, T, width] after each transformer block, before the final norm; arguments are
  /// those of hidden().
  std::vector<torch::Tensor> residuals(const torch::Tensor& tokens, const torch::Tensor& positions,
                                       const torch::Tensor& unseen, const CanvasRows& canvas);
  torch::Tensor normed(const torch::Tensor& residual) { return final_norm_(residual); }

  /// Mean embeddings [..., width] under distributions [..., vocabulary].
  torch::Tensor soft_embedding(const torch::Tensor& probabilities);

  /// Logits [..., vocabulary] of hidden states [..., width].
  torch::Tensor logits(const torch::Tensor& hidden);

  /// The output head's matrix [vocabulary, width], the embedding if tied, and the scale of its logits.
  const torch::Tensor& head() const { return head_ ? head_->weight : embedding_->weight; }
  double logit_scale() const;

  const ModelShape& shape() const { return shape_; }

  /// Converts the matrices of linear layers and the embedding to `type`; norms, biases and low-rank updates
  /// keep theirs.
  void keep_matrices_in(torch::ScalarType type);

  /// Whether the activations of every block are kept for the backward pass (default). If not, only block
  /// inputs are kept and blocks are recomputed: less memory, a third more time.
  void keep_activations(bool keeps) { keeps_activations_ = keeps; }
  bool keeps_activations() const { return keeps_activations_; }

  /// Adds a low-rank update to every matrix of every block and freezes all other weights. Throws InputError
  /// for gidd, llada2-moe and diffusion-gemma, which have blocks of their own.
  void add_lora(const LoraShape& lora);
  const LoraShape& lora() const { return lora_; }
  /// The trainable parameters, with their names.
  torch::OrderedDict<std::string, torch::Tensor> learned() const;

 private:
  std::vector<torch::Tensor> canvas_residuals(const torch::Tensor& tokens, const torch::Tensor& positions,
                                              const torch::Tensor& unseen, const CanvasRows& canvas);

  ModelShape shape_;
  torch::nn::Embedding embedding_;
  torch::nn::ModuleList blocks_;
  RmsNorm final_norm_;
  torch::nn::Linear head_ = nullptr;  // null if tied to the embedding
  LoraShape lora_;
  bool keeps_activations_ = true;
  std::shared_ptr<SelfConditioningImpl> conditioning_;
};
TORCH_MODULE(Transformer);

/// A copy of a model with its low-rank updates merged into the matrices; all weights are trainable.
Transformer merged_model(const Transformer& model);

}  // namespace lacuna::train
