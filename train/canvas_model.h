// DiffusionGemma's parts of the transformer: its block, its two kinds of layers, and the self-conditioning of
// canvases. The model is Gemma 4's mixture of experts; the same weights read text causally and denoise
// canvases. docs/inside/training.md names the sources.
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "train/model.h"

namespace lacuna::train {

/// Heads and RoPE of one layer of diffusion-gemma. Layers alternate between sliding-window and full
/// attention, starting with a window; the last layer has full attention.
struct CanvasLayer {
  bool slides = true;  ///< sliding-window attention; otherwise full attention
  int64_t head_width = 0;
  int64_t kv_heads = 0;
  int64_t rotated_pairs = 0;  ///< pairs of a head that RoPE rotates; the others have frequency 0
  double rope_theta = 0;
};

CanvasLayer canvas_layer(const ModelShape& shape, int64_t layer);

/// x / sqrt(mean(x^2) + epsilon), in f32.
torch::Tensor unit_norm(const torch::Tensor& x, double epsilon);

/// RoPE's cosines and sines and the attention mask for the layers of one kind.
///   positions  [T], or [B, T] if batch entries differ
///   unseen     [T, T] or [B, 1, T, T] bool: keys that a row must not attend to; undefined: rows before the
///              canvas are causal, and those of the canvas see all
/// A sliding layer also hides the keys up to p - window from a row at position p; the rows of a canvas share
/// the window of their first row.
Sequence canvas_sequence(const ModelShape& shape, const CanvasLayer& layer, const torch::Tensor& positions,
                         const torch::Tensor& unseen, int64_t canvas_begin);

/// One block:
///
///   h = x + post_attn_norm(o(attention(attn_norm(x))))
///   d = post_dense_norm(ffn(ffn_norm(h)))
///   m = post_expert_norm(sum over the chosen e of g_e ffn_e(expert_norm(h)))
///   y = (h + post_ffn_norm(d + m)) * layer_scalar
///
/// with ffn(z) = down(gelu_tanh(gate(z)) * up(z)), norms of q and k per head, v normed without weights, and
/// unscaled scores q k. Full-attention layers have no v projection: v is k before k's norm. With
/// r = softmax(router(unit_norm(h) * width^-0.5 * router_scale)), the experts with the largest r are chosen;
/// g_e is r_e divided by the sum of the chosen r, times expert_scale_e.
class CanvasBlockImpl : public torch::nn::Module {
 public:
  CanvasBlockImpl(const ModelShape& shape, int64_t layer);
  /// x [B, T, width]; `sequence` is made by canvas_sequence() for layer().
  torch::Tensor forward(const torch::Tensor& x, const Sequence& sequence);

  const CanvasLayer& layer() const { return layer_; }

 private:
  torch::Tensor attend(const torch::Tensor& h, const Sequence& sequence);
  torch::Tensor experts(const torch::Tensor& h);
  /// [rows, experts]: g_e, 0 for experts that were not chosen.
  torch::Tensor shares(const torch::Tensor& rows);

  CanvasLayer layer_;
  int64_t heads_, per_token_;
  double epsilon_;
  RmsNorm attn_norm_, post_attn_norm_, ffn_norm_, post_dense_norm_, expert_norm_, post_expert_norm_,
      post_ffn_norm_, q_norm_, k_norm_;
  torch::nn::Linear q_, k_, o_, gate_, up_, down_, router_;
  torch::nn::Linear v_ = nullptr;
  torch::Tensor router_scale_;    // [width]
  torch::Tensor expert_scale_;    // [experts]
  torch::Tensor expert_gate_up_;  // [experts, 2 * expert width, width]
  torch::Tensor expert_down_;     // [experts, width, expert width]
  torch::Tensor layer_scalar_;    // [1]
};
TORCH_MODULE(CanvasBlock);

/// Self-conditioning term, added to the embeddings of a canvas's rows: down(gelu_tanh(gate(n)) * up(n)), with
/// n = norm(soft).
class SelfConditioningImpl : public torch::nn::Module {
 public:
  explicit SelfConditioningImpl(const ModelShape& shape);
  torch::Tensor forward(const torch::Tensor& soft);

 private:
  RmsNorm norm_;
  torch::nn::Linear gate_, up_, down_;
};

}  // namespace lacuna::train
