// The LLaDA transformer in LibTorch, for training. Parameters carry the published tensor names, so that
// named_parameters() is the checkpoint.
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace lacuna::train {

struct ModelShape {
  int64_t layers = 4;
  int64_t width = 128;  ///< of the residual stream
  int64_t heads = 4;    ///< width / heads is even
  int64_t ffn_width = 384;
  int64_t vocabulary = 0;  ///< rows of the embedding, special tokens included
  double rope_theta = 10000;
  double norm_epsilon = 1e-5;

  int64_t head_width() const { return width / heads; }
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

/// One pre-norm block: attention over the whole sequence in both directions, then the gated feed-forward.
class BlockImpl : public torch::nn::Module {
 public:
  explicit BlockImpl(const ModelShape& shape);
  /// x [B, T, width]; cos and sin [T, head_width / 2].
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& cos, const torch::Tensor& sin);

 private:
  int64_t heads_;
  RmsNorm attn_norm_, ff_norm_;
  torch::nn::Linear q_proj_, k_proj_, v_proj_, attn_out_, ff_proj_, up_proj_, ff_out_;
};
TORCH_MODULE(Block);

class LladaImpl : public torch::nn::Module {
 public:
  /// Draws the weights from LibTorch's global generator: normal with deviation 1 / sqrt(inputs), and smaller
  /// by sqrt(2 * layers) for the matrices that write to the residual stream.
  explicit LladaImpl(const ModelShape& shape);

  /// The normalised hidden states [B, T, width] of tokens [B, T] (int64). Position = index in the row; every
  /// position attends to every other; there is no other input.
  torch::Tensor hidden(const torch::Tensor& tokens);

  /// Logits [..., vocabulary] of hidden states [..., width].
  torch::Tensor logits(const torch::Tensor& hidden);

  const ModelShape& shape() const { return shape_; }

 private:
  ModelShape shape_;
  torch::nn::Embedding wte_;
  torch::nn::ModuleList blocks_;
  RmsNorm ln_f_;
  torch::nn::Linear ff_out_;  // the head; LLaDA gives it the name of a block's last matrix
};
TORCH_MODULE(Llada);

}  // namespace lacuna::train
