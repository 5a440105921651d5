// Operations of a block that pass over their rows once, with their gradients. LibTorch has an operation for
// each term of these, which on the CPU take most of the time of a step. What they are given in other types
// than f32 and bf16, or on another device, is computed by LibTorch's operations.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace lacuna::train {

/// bf16 where matmuls are in bf16 (autocast), else the type of x.
torch::ScalarType product_type(const torch::Tensor& x);

/// Rows of `weight` [vocabulary, width] in f32: [..., width] for tokens [...]. `has_head`: the weight is that
/// of the head, too. Its gradient here is sparse then, which adds to that of the head without a copy.
torch::Tensor embedded(const torch::Tensor& tokens, const torch::Tensor& weight, bool has_head);

/// x / sqrt(mean(x^2) + epsilon) * weight, in f32 whatever the type of x. x [..., width], weight [width].
torch::Tensor rms_norm(const torch::Tensor& x, const torch::Tensor& weight, double epsilon);

/// silu(gate) * up, of two tensors of one shape and type.
torch::Tensor gated(const torch::Tensor& gate, const torch::Tensor& up);

/// The first 2 C numbers of each head rotated by the angles of its position, the second C against the first.
/// x [B, H, T, D]; cos and sin [T, C] or [B, 1, T, C].
torch::Tensor rotated(const torch::Tensor& x, const torch::Tensor& cos, const torch::Tensor& sin);

/// y = W x + b + s B (A x), W and b not learned (LoRA: Hu et al. 2021, arXiv 2106.09685). x [..., inputs],
/// weight [outputs, inputs], a [rank, inputs], b [outputs, rank]; `bias` may be undefined.
torch::Tensor updated_product(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias,
                              const torch::Tensor& a, const torch::Tensor& b, double scale);

/// The keys that rows see, for attention() to leave out the others.
struct Visibility : torch::CustomClassHolder {
  static constexpr int64_t kQueries = 64;  ///< rows that are computed together
  static constexpr int64_t kKeys = 32;     ///< keys that are left out together

  using Range = std::pair<int64_t, int64_t>;  // first, end

  /// `unseen` [T, S] or [B, 1, T, S] bool: what a row must not attend to; undefined: nothing.
  explicit Visibility(torch::Tensor unseen);

  torch::Tensor unseen;
  /// For each row of the batch, or for all: for each kQueries rows, the ranges of keys that one of them sees.
  std::vector<std::vector<std::vector<Range>>> ranges;
};

/// softmax(cap(scale q k^T)) v over the keys that each row sees: [B, T, H * D], in the product_type(). q
/// [B, H, T, D], k and v [B, G, S, D]: H / G neighbouring heads of q share one of k and v. cap(x) = c tanh(x
/// / c) with c = `soft_cap`, the identity where it is 0. Scores are kept of kQueries rows at a time, and
/// computed again for the gradients.
torch::Tensor attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                        const c10::intrusive_ptr<Visibility>& visible, double scale, double soft_cap);

/// The sum over rows of weight * -log softmax(scale * head h)[target], without the logit of token `barred`
/// (-1: none). hidden [M, width], head [vocabulary, width], targets [M] int64, weights [M] f32. Logits exist
/// of some rows at a time, and the gradients are computed with the loss: whoever has no use for them gives a
/// NoGradGuard. On the CPU, for f32.
torch::Tensor cross_entropy(const torch::Tensor& hidden, const torch::Tensor& head,
                            const torch::Tensor& targets, const torch::Tensor& weights, double scale,
                            int64_t barred);

}  // namespace lacuna::train
