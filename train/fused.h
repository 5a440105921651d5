// Fused operations of a transformer block, with gradients. Each makes one pass over the rows; LibTorch's
// separate operations took most of a training step on the CPU. Types other than f32 and bf16, and other
// devices, fall back to LibTorch.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace lacuna::train {

/// bf16 where matmuls are in bf16 (autocast), else the type of x.
torch::ScalarType matmul_dtype(const torch::Tensor& x);

/// Embeds tokens [...] as rows of `weight` [vocabulary, width]: [..., width] in f32. If `is_tied`, the output
/// head shares `weight`, and the sparse gradient is added to the head's without a copy.
torch::Tensor embed_tokens(const torch::Tensor& tokens, const torch::Tensor& weight, bool is_tied);

/// x / sqrt(mean(x^2) + epsilon) * weight, in f32 whatever the type of x. x [..., width], weight [width].
torch::Tensor rms_norm(const torch::Tensor& x, const torch::Tensor& weight, double epsilon);

/// silu(gate) * up; both tensors have the same shape and type.
torch::Tensor swiglu(const torch::Tensor& gate, const torch::Tensor& up);

/// Applies RoPE to the first 2 C dimensions of each head; dimension i is paired with i + C.
/// x [B, H, T, D]; cos and sin [T, C] or [B, 1, T, C].
torch::Tensor apply_rope(const torch::Tensor& x, const torch::Tensor& cos, const torch::Tensor& sin);

/// y = W x + bias + scale B (A x), W and bias frozen (LoRA, arXiv 2106.09685). x [..., inputs],
/// weight [outputs, inputs], a [rank, inputs], b [outputs, rank]; `bias` may be undefined.
torch::Tensor lora_linear(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias,
                          const torch::Tensor& a, const torch::Tensor& b, double scale);

/// Attention mask, with the ranges of keys that attention() reads.
struct Visibility : torch::CustomClassHolder {
  static constexpr int64_t kQueries = 64;  ///< query rows of a tile
  static constexpr int64_t kKeys = 32;     ///< granularity of key ranges

  using Range = std::pair<int64_t, int64_t>;  // first, end

  /// `unseen` [T, S] or [B, 1, T, S] bool: keys that a row must not attend to; undefined: none.
  explicit Visibility(torch::Tensor unseen);

  torch::Tensor unseen;
  /// [batch or 1][tile]: the ranges of keys that at least one query of the tile sees; empty: all keys.
  std::vector<std::vector<std::vector<Range>>> ranges;
};

/// softmax(cap(scale q k^T)) v over the keys that each row sees: [B, T, H * D], in the matmul_dtype(). q
/// [B, H, T, D], k and v [B, G, S, D]: H / G adjacent query heads share one head of k and v. cap(x) =
/// c tanh(x / c) with c = `soft_cap`, or x if `soft_cap` is 0. Only one tile of scores is held at a time; the
/// backward pass recomputes scores.
torch::Tensor attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                        const c10::intrusive_ptr<Visibility>& visible, double scale, double soft_cap);

/// The sum over rows h of `hidden` of weight * -log softmax(scale * head h)[target], without the logit of
/// token `suppressed` (-1: none). hidden [M, width], head [vocabulary, width], targets [M] int64, weights [M]
/// f32. With a frozen head, logits are computed for a few rows at a time. The forward pass also computes the
/// gradients, except under a NoGradGuard. CPU, f32.
torch::Tensor cross_entropy(const torch::Tensor& hidden, const torch::Tensor& head,
                            const torch::Tensor& targets, const torch::Tensor& weights, double scale,
                            int64_t suppressed);

}  // namespace lacuna::train
