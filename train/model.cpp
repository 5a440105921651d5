#include "train/model.h"

#include <cmath>
#include <memory>

namespace lacuna::train {
namespace {

torch::nn::Linear linear(int64_t inputs, int64_t outputs) {
  return torch::nn::Linear(torch::nn::LinearOptions(inputs, outputs).bias(false));
}

/// Rotates the halves of each head against each other: x [B, H, T, D], cos and sin [T, D / 2].
torch::Tensor rotate(const torch::Tensor& x, const torch::Tensor& cos, const torch::Tensor& sin) {
  const auto halves = x.chunk(2, -1);
  return torch::cat({halves[0] * cos - halves[1] * sin, halves[1] * cos + halves[0] * sin}, -1);
}

}  // namespace

RmsNormImpl::RmsNormImpl(int64_t width, double epsilon)
    : weight_(register_parameter("weight", torch::ones({width}))), epsilon_(epsilon) {}

torch::Tensor RmsNormImpl::forward(const torch::Tensor& x) {
  const torch::Tensor wide = x.to(torch::kFloat32);
  const torch::Tensor scale = torch::rsqrt(wide.square().mean(-1, /*keepdim=*/true) + epsilon_);
  return (wide * scale) * weight_;
}

BlockImpl::BlockImpl(const ModelShape& shape)
    : heads_(shape.heads),
      attn_norm_(register_module("attn_norm", RmsNorm(shape.width, shape.norm_epsilon))),
      ff_norm_(register_module("ff_norm", RmsNorm(shape.width, shape.norm_epsilon))),
      q_proj_(register_module("q_proj", linear(shape.width, shape.width))),
      k_proj_(register_module("k_proj", linear(shape.width, shape.width))),
      v_proj_(register_module("v_proj", linear(shape.width, shape.width))),
      attn_out_(register_module("attn_out", linear(shape.width, shape.width))),
      ff_proj_(register_module("ff_proj", linear(shape.width, shape.ffn_width))),
      up_proj_(register_module("up_proj", linear(shape.width, shape.ffn_width))),
      ff_out_(register_module("ff_out", linear(shape.ffn_width, shape.width))) {
  const torch::NoGradGuard no_grad;
  for (const auto& projection : {q_proj_, k_proj_, v_proj_, attn_out_, ff_proj_, up_proj_, ff_out_}) {
    projection->weight.normal_(0, 1 / std::sqrt(static_cast<double>(projection->weight.size(1))));
  }
  for (const auto& residual : {attn_out_, ff_out_}) {
    residual->weight.div_(std::sqrt(2.0 * static_cast<double>(shape.layers)));
  }
}

torch::Tensor BlockImpl::forward(const torch::Tensor& x, const torch::Tensor& cos, const torch::Tensor& sin) {
  const auto split_heads = [this](const torch::Tensor& y) {  // [B, T, width] -> [B, H, T, D]
    return y.view({y.size(0), y.size(1), heads_, -1}).transpose(1, 2);
  };
  const torch::Tensor h = attn_norm_(x);
  const torch::Tensor q = rotate(split_heads(q_proj_(h)), cos, sin);
  const torch::Tensor k = rotate(split_heads(k_proj_(h)), cos, sin);
  const torch::Tensor v = split_heads(v_proj_(h));
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(-1)));
  const torch::Tensor weights = torch::softmax(torch::matmul(q * scale, k.transpose(-1, -2)), -1);
  const torch::Tensor mixed = torch::matmul(weights, v).transpose(1, 2).reshape(x.sizes());
  const torch::Tensor y = x + attn_out_(mixed);
  const torch::Tensor g = ff_norm_(y);
  return y + ff_out_(torch::silu(ff_proj_(g)) * up_proj_(g));
}

LladaImpl::LladaImpl(const ModelShape& shape)
    : shape_(shape),
      wte_(torch::nn::Embedding(shape.vocabulary, shape.width)),
      ln_f_(RmsNorm(shape.width, shape.norm_epsilon)),
      ff_out_(linear(shape.width, shape.vocabulary)) {
  // The published names are model.transformer.*, so two plain modules stand around the parts.
  auto transformer = std::make_shared<torch::nn::Module>("transformer");
  transformer->register_module("wte", wte_);
  for (int64_t i = 0; i < shape.layers; ++i) blocks_->push_back(Block(shape));
  transformer->register_module("blocks", blocks_);
  transformer->register_module("ln_f", ln_f_);
  transformer->register_module("ff_out", ff_out_);
  auto model = std::make_shared<torch::nn::Module>("model");
  model->register_module("transformer", transformer);
  register_module("model", model);

  const torch::NoGradGuard no_grad;
  const double deviation = 1 / std::sqrt(static_cast<double>(shape.width));
  wte_->weight.normal_(0, deviation);
  ff_out_->weight.normal_(0, deviation);
}

torch::Tensor LladaImpl::hidden(const torch::Tensor& tokens) {
  const int64_t half = shape_.head_width() / 2;
  const torch::Tensor exponents = torch::arange(half, torch::kFloat64) / static_cast<double>(half);
  const torch::Tensor angles =
      torch::outer(torch::arange(tokens.size(1), torch::kFloat64), torch::pow(shape_.rope_theta, -exponents));
  const torch::Tensor cos = angles.cos().to(torch::kFloat32);
  const torch::Tensor sin = angles.sin().to(torch::kFloat32);
  torch::Tensor x = wte_(tokens);
  for (const auto& block : *blocks_) x = block->as<Block>()->forward(x, cos, sin);
  return ln_f_(x);
}

torch::Tensor LladaImpl::logits(const torch::Tensor& hidden) {
  return ff_out_(hidden);
}

}  // namespace lacuna::train
