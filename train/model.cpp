#include "train/model.h"

#include <cmath>
#include <limits>

namespace lacuna::train {
namespace {

torch::nn::Linear linear(int64_t inputs, int64_t outputs, bool bias = false) {
  return torch::nn::Linear(torch::nn::LinearOptions(inputs, outputs).bias(bias));
}

/// Rotates the halves of each head against each other: x [B, H, T, D], cos and sin as in Sequence.
torch::Tensor rotate(const torch::Tensor& x, const Sequence& sequence) {
  const auto halves = x.chunk(2, -1);
  const torch::Tensor &cos = sequence.cos, &sin = sequence.sin;
  return torch::cat({halves[0] * cos - halves[1] * sin, halves[1] * cos + halves[0] * sin}, -1);
}

/// `positions` [T], or [B, T] where each row has its own.
Sequence make_sequence(const ModelShape& shape, const torch::Tensor& positions, const torch::Tensor& unseen) {
  const int64_t length = positions.size(-1);
  const int64_t half = shape.head_width() / 2;
  const torch::Tensor exponents = torch::arange(half, torch::kFloat64) / static_cast<double>(half);
  torch::Tensor angles =
      positions.to(torch::kFloat64).unsqueeze(-1) * torch::pow(shape.rope_theta, -exponents);
  if (angles.dim() == 3) angles = angles.unsqueeze(1);  // the same for all heads
  Sequence sequence{angles.cos().to(torch::kFloat32), angles.sin().to(torch::kFloat32), unseen};
  if (unseen.defined()) return sequence;
  if (shape.traits().causal) sequence.unseen = unseen_by_blocks(length, 1);
  if (shape.traits().objective == Objective::kBlocks) {
    sequence.unseen = unseen_by_blocks(length, shape.block_length);
  }
  return sequence;
}

}  // namespace

torch::Tensor unseen_by_blocks(int64_t length, int64_t block_length) {
  const torch::Tensor block = torch::arange(length).div(block_length, "floor");
  return block.unsqueeze(1) < block.unsqueeze(0);
}

RmsNormImpl::RmsNormImpl(int64_t width, double epsilon)
    : weight_(register_parameter("weight", torch::ones({width}))), epsilon_(epsilon) {}

torch::Tensor RmsNormImpl::forward(const torch::Tensor& x) {
  const torch::Tensor wide = x.to(torch::kFloat32);
  const torch::Tensor scale = torch::rsqrt(wide.square().mean(-1, /*keepdim=*/true) + epsilon_);
  return (wide * scale) * weight_;
}

BlockImpl::BlockImpl(const ModelShape& shape)
    : heads_(shape.heads),
      attn_norm_(register_module("attn_norm", RmsNorm(shape.width, shape.traits().norm_epsilon))),
      ffn_norm_(register_module("ffn_norm", RmsNorm(shape.width, shape.traits().norm_epsilon))),
      q_(register_module("q", linear(shape.width, shape.width, shape.traits().qkv_bias))),
      k_(register_module("k", linear(shape.width, shape.width, shape.traits().qkv_bias))),
      v_(register_module("v", linear(shape.width, shape.width, shape.traits().qkv_bias))),
      o_(register_module("o", linear(shape.width, shape.width))),
      gate_(register_module("gate", linear(shape.width, shape.ffn_width))),
      up_(register_module("up", linear(shape.width, shape.ffn_width))),
      down_(register_module("down", linear(shape.ffn_width, shape.width))) {
  const FamilyTraits& traits = shape.traits();
  if (traits.qk_norm) {
    q_norm_ = register_module("q_norm", RmsNorm(shape.head_width(), traits.norm_epsilon));
    k_norm_ = register_module("k_norm", RmsNorm(shape.head_width(), traits.norm_epsilon));
  }
  const torch::NoGradGuard no_grad;
  for (const auto& projection : {q_, k_, v_, o_, gate_, up_, down_}) {
    projection->weight.normal_(0, 1 / std::sqrt(static_cast<double>(projection->weight.size(1))));
    if (projection->bias.defined()) projection->bias.zero_();
  }
  for (const auto& residual : {o_, down_}) {
    residual->weight.div_(std::sqrt(2.0 * static_cast<double>(shape.layers)));
  }
}

torch::Tensor BlockImpl::forward(const torch::Tensor& x, const Sequence& sequence) {
  const auto split_heads = [this](const torch::Tensor& y) {  // [B, T, width] -> [B, H, T, D]
    return y.view({y.size(0), y.size(1), heads_, -1}).transpose(1, 2);
  };
  const torch::Tensor h = attn_norm_(x);
  torch::Tensor q = split_heads(q_(h));
  torch::Tensor k = split_heads(k_(h));
  if (q_norm_) q = q_norm_(q);
  if (k_norm_) k = k_norm_(k);
  q = rotate(q, sequence);
  k = rotate(k, sequence);
  const torch::Tensor v = split_heads(v_(h));
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(-1)));
  torch::Tensor scores = torch::matmul(q * scale, k.transpose(-1, -2));
  if (sequence.unseen.defined()) {
    scores = scores.masked_fill(sequence.unseen, -std::numeric_limits<double>::infinity());
  }
  const torch::Tensor mixed = torch::matmul(torch::softmax(scores, -1), v).transpose(1, 2).reshape(x.sizes());
  const torch::Tensor y = x + o_(mixed);
  const torch::Tensor g = ffn_norm_(y);
  return y + down_(torch::silu(gate_(g)) * up_(g));
}

TransformerImpl::TransformerImpl(const ModelShape& shape)
    : shape_(shape),
      embedding_(register_module("embedding", torch::nn::Embedding(shape.vocabulary, shape.width))),
      blocks_(register_module("blocks", torch::nn::ModuleList())),
      final_norm_(register_module("final_norm", RmsNorm(shape.width, shape.traits().norm_epsilon))),
      head_(register_module("head", linear(shape.width, shape.vocabulary))) {
  for (int64_t i = 0; i < shape.layers; ++i) blocks_->push_back(Block(shape));

  const torch::NoGradGuard no_grad;
  const double deviation = 1 / std::sqrt(static_cast<double>(shape.width));
  embedding_->weight.normal_(0, deviation);
  head_->weight.normal_(0, deviation);
}

torch::Tensor TransformerImpl::hidden(const torch::Tensor& tokens, const torch::Tensor& positions,
                                      const torch::Tensor& unseen) {
  const Sequence sequence =
      make_sequence(shape_, positions.defined() ? positions : torch::arange(tokens.size(1)), unseen);
  torch::Tensor x = embedding_(tokens);
  for (const auto& block : *blocks_) x = block->as<Block>()->forward(x, sequence);
  return final_norm_(x);
}

torch::Tensor TransformerImpl::logits(const torch::Tensor& hidden) {
  return head_(hidden);
}

}  // namespace lacuna::train
