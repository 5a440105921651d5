// Fused operations of a transformer block, with gradients: one pass over the rows, where LibTorch has an
// operation per term, which took most of a step on the CPU. Types other than f32 and bf16, and other
// devices, fall back to LibTorch.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace lacuna::train {

/// bf16 where matmuls are in bf16 (autocast), else the type of x.
torch::ScalarType matmul_dtype(const torch::Tensor& x);

/// Rows of `weight` [vocabulary, width] in f32: [..., width] for tokens [...]. `is_tied`: the
/// output head is tied to it; the gradient is then sparse and is added to the head's without a copy.
torch::Tensor embed_tokens(const torch::Tensor& tokens, const torch::Tensor& weight, bool is_tied);

/// x / sqrt(mean(x^2) + epsilon) * weight, in f32 whatever the type of x. x [..., width], weight [width].
torch::Tensor rms_norm(const torch::Tensor& x, const torch::Tensor& weight, double epsilon);

/// silu(gate) * up, of two tensors of one shape and type.
torch::Tensor swiglu(const torch::Tensor& gate, const torch::Tensor& up);

/// The first 2 C numbers of each head rotated by the angles of its position, the second C against the first.
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

  /// `unseen` [T, S] or [B, 1, T, S] bool: what a row must not attend to; undefined: nothing.
  explicit Visibility(torch::Tensor unseen);

  torch::Tensor unseen;
  /// [batch or 1][tile]: the ranges of keys that at least one query of the tile sees; empty: all keys.
  std::vector<std::vector<std::vector<Range>>> ranges;
};

/// softmax(cap(scale q k^T)) v over the keys that each row sees: [B, T, H * D], in the matmul_dtype(). q
/// [B, H, T, D], k and v [B, G, S, D]: H / G neighbouring heads of q share one of k and v. cap(x) = c tanh(x
/// / c) with c = `soft_cap`, the identity where it is 0. Scores of one tile are held at a time; the
/// backward pass recomputes them.
torch::Tensor attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                        const c10::intrusive_ptr<Visibility>& visible, double scale, double soft_cap);

/// The sum over rows of weight * -log softmax(scale * head h)[target], without the logit of token
/// `suppressed`
/// (-1: none). hidden [M, width], head [vocabulary, width], targets [M] int64, weights [M] f32. With a
/// frozen head, logits are computed for some rows at a time. The forward pass computes the gradients too,
/// except under a NoGradGuard. CPU, f32.
torch::Tensor cross_entropy(const torch::Tensor& hidden, const torch::Tensor& head,
                            const torch::Tensor& targets, const torch::Tensor& weights, double scale,
                            int64_t suppressed);

}  // namespace lacuna::train
