// The transformer in LibTorch, for training: one for all families, which differ in a few flags.
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "train/family.h"

namespace lacuna::train {

struct ModelShape {
  Family family = Family::kLlada;
  int64_t layers = 4;
  int64_t width = 128;  ///< of the residual stream
  int64_t heads = 4;    ///< width / heads is even
  int64_t ffn_width = 384;
  int64_t vocabulary = 0;  ///< rows of the embedding, special tokens included
  double rope_theta = 10000;
  int64_t block_length = 8;  ///< of the objective kBlocks

  int64_t head_width() const { return width / heads; }
  const FamilyTraits& traits() const { return traits_of(family); }
};

/// RMSNorm with a plain weight: x / sqrt(mean(x^2) + epsilon) * weight, computed in f32 whatever the type of
/// x.
class RmsNormImpl : public torch::nn::Module {
 public:
  RmsNormImpl(int64_t width, double epsilon);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  torch::Tensor weight_;
  double epsilon_;
};
TORCH_MODULE(RmsNorm);

/// What rows must not attend to, [T, T] bool, where a row sees its own block of neighbours and the blocks
/// before.
torch::Tensor unseen_by_blocks(int64_t length, int64_t block_length);

/// What all blocks of a pass over T positions share.
struct Sequence {
  torch::Tensor cos, sin;  ///< [T, head_width / 2] or [B, 1, T, head_width / 2]: RoPE's rotations
  torch::Tensor unseen;    ///< [T, T] bool: what a position must not attend to; undefined: nothing
};

/// One pre-norm block: attention over the sequence, then the gated feed-forward.
class BlockImpl : public torch::nn::Module {
 public:
  explicit BlockImpl(const ModelShape& shape);
  /// x [B, T, width].
  torch::Tensor forward(const torch::Tensor& x, const Sequence& sequence);

 private:
  int64_t heads_;
  RmsNorm attn_norm_, ffn_norm_;
  torch::nn::Linear q_, k_, v_, o_, gate_, up_, down_;
  RmsNorm q_norm_ = nullptr, k_norm_ = nullptr;  // of each head; null where the family has none
};
TORCH_MODULE(Block);

/// Its parameters are embedding, blocks.N.{attn_norm, q, k, v, q_norm, k_norm, o, ffn_norm, gate, up, down},
/// final_norm and head, each with .weight and perhaps .bias; export.h knows their published names.
class TransformerImpl : public torch::nn::Module {
 public:
  /// Draws the weights from LibTorch's global generator: normal with deviation 1 / sqrt(inputs), and smaller
  /// by sqrt(2 * layers) for the matrices that write to the residual stream.
  explicit TransformerImpl(const ModelShape& shape);

  /// The normalised hidden states [B, T, width] of tokens [B, T] (int64) at `positions` [B, T] (int64;
  /// undefined: the index in the row). Positions turn queries and keys; what a causal model attends to is
  /// decided by the order of the rows alone.
  ///   unseen  [T, T] bool: what a row must not attend to; undefined: as the family has it
  torch::Tensor hidden(const torch::Tensor& tokens, const torch::Tensor& positions = {},
                       const torch::Tensor& unseen = {});

  /// Logits [..., vocabulary] of hidden states [..., width].
  torch::Tensor logits(const torch::Tensor& hidden);

  const ModelShape& shape() const { return shape_; }

 private:
  ModelShape shape_;
  torch::nn::Embedding embedding_;
  torch::nn::ModuleList blocks_;
  RmsNorm final_norm_;
  torch::nn::Linear head_;
};
TORCH_MODULE(Transformer);

}  // namespace lacuna::train
