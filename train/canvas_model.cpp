#include "train/canvas_model.h"

#include <cmath>

namespace lacuna::train {
namespace {

constexpr int64_t kFullEvery = 2;         // every second layer has full attention
constexpr double kFullThetaFactor = 100;  // RoPE theta of full layers over that of sliding ones: 1e6 / 1e4
constexpr double kFullTurningShare = 0.25;

torch::nn::Linear linear(int64_t inputs, int64_t outputs) {
  const torch::NoGradGuard no_grad;
  torch::nn::Linear layer(torch::nn::LinearOptions(inputs, outputs).bias(false));
  layer->weight.normal_(0, 1 / std::sqrt(static_cast<double>(inputs)));
  return layer;
}

torch::Tensor gelu_gated(const torch::Tensor& gate, const torch::Tensor& up) {
  return torch::gelu(gate, "tanh") * up;
}

/// Rows before the canvas are causal, those of the canvas see all.
torch::Tensor unseen_before(int64_t length, int64_t canvas_begin) {
  torch::Tensor unseen = unseen_by_blocks(length, 1);
  if (canvas_begin >= 0) unseen.slice(0, canvas_begin).fill_(false);
  return unseen;
}

}  // namespace

CanvasLayer canvas_layer(const ModelShape& shape, int64_t layer) {
  const int64_t width = shape.head_width();
  const bool is_full = (layer + 1) % kFullEvery == 0 || layer + 1 == shape.layers;
  if (is_full) {
    const auto turning = static_cast<int64_t>(kFullTurningShare * static_cast<double>(width));
    return {false, 2 * width, 1, turning, kFullThetaFactor * shape.rope_theta};
  }
  return {true, width, shape.heads % 2 == 0 ? shape.heads / 2 : shape.heads, width / 2, shape.rope_theta};
}

torch::Tensor unit_norm(const torch::Tensor& x, double epsilon) {
  const auto type = x.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
  return rms_norm(x, torch::ones({x.size(-1)}, x.options().dtype(type)), epsilon);
}

Sequence canvas_sequence(const ModelShape& shape, const CanvasLayer& layer, const torch::Tensor& positions,
                         const torch::Tensor& unseen, int64_t canvas_begin) {
  const int64_t half = layer.head_width / 2;
  const torch::Tensor pairs = torch::arange(half, positions.options().dtype(torch::kFloat64));
  const torch::Tensor frequencies =
      torch::pow(layer.rope_theta, -pairs / static_cast<double>(half)) * pairs.lt(layer.rotated_pairs);
  torch::Tensor angles = positions.to(torch::kFloat64).unsqueeze(-1) * frequencies;
  if (angles.dim() == 3) angles = angles.unsqueeze(1);  // the same for all heads
  torch::Tensor not_seen = unseen.defined() ? unseen : unseen_before(positions.size(-1), canvas_begin);
  not_seen = not_seen.to(positions.device());
  if (layer.slides) {
    torch::Tensor reach = positions - shape.canvas.window;
    if (canvas_begin >= 0) {
      torch::Tensor of_canvas = reach.slice(-1, canvas_begin);
      of_canvas.copy_(of_canvas.slice(-1, 0, 1).clone().expand_as(of_canvas));
    }
    torch::Tensor too_far = positions.unsqueeze(-2) <= reach.unsqueeze(-1);
    if (too_far.dim() == 3) too_far = too_far.unsqueeze(1);
    not_seen = not_seen.logical_or(too_far);
  }
  return {angles.cos().to(torch::kFloat32), angles.sin().to(torch::kFloat32),
          c10::make_intrusive<Visibility>(not_seen)};
}

CanvasBlockImpl::CanvasBlockImpl(const ModelShape& shape, int64_t layer)
    : layer_(canvas_layer(shape, layer)),
      heads_(shape.heads),
      per_token_(shape.experts.per_token),
      epsilon_(shape.traits().norm_epsilon),
      attn_norm_(register_module("attn_norm", RmsNorm(shape.width, shape))),
      post_attn_norm_(register_module("post_attn_norm", RmsNorm(shape.width, shape))),
      ffn_norm_(register_module("ffn_norm", RmsNorm(shape.width, shape))),
      post_dense_norm_(register_module("post_dense_norm", RmsNorm(shape.width, shape))),
      expert_norm_(register_module("expert_norm", RmsNorm(shape.width, shape))),
      post_expert_norm_(register_module("post_expert_norm", RmsNorm(shape.width, shape))),
      post_ffn_norm_(register_module("post_ffn_norm", RmsNorm(shape.width, shape))),
      q_norm_(register_module("q_norm", RmsNorm(layer_.head_width, shape))),
      k_norm_(register_module("k_norm", RmsNorm(layer_.head_width, shape))),
      q_(register_module("q", linear(shape.width, heads_ * layer_.head_width))),
      k_(register_module("k", linear(shape.width, layer_.kv_heads * layer_.head_width))),
      o_(register_module("o", linear(heads_ * layer_.head_width, shape.width))),
      gate_(register_module("gate", linear(shape.width, shape.ffn_width))),
      up_(register_module("up", linear(shape.width, shape.ffn_width))),
      down_(register_module("down", linear(shape.ffn_width, shape.width))),
      router_(register_module("router", linear(shape.width, shape.experts.count))) {
  if (layer_.slides) v_ = register_module("v", linear(shape.width, layer_.kv_heads * layer_.head_width));
  const int64_t count = shape.experts.count, inner = shape.experts.ffn_width;
  const auto root_width = std::sqrt(static_cast<double>(shape.width));
  router_scale_ = register_parameter("router_scale", torch::full({shape.width}, root_width));
  expert_scale_ = register_parameter("expert_scale", torch::ones({count}));
  expert_gate_up_ =
      register_parameter("expert_gate_up", torch::randn({count, 2 * inner, shape.width}) / root_width);
  expert_down_ = register_parameter(
      "expert_down", torch::randn({count, shape.width, inner}) / std::sqrt(static_cast<double>(inner)));
  layer_scalar_ = register_parameter("layer_scalar", torch::ones({1}));
  const torch::NoGradGuard no_grad;
  // Scores have no scale: the norms of q and k give them deviation 1.
  for (const RmsNorm& norm : {q_norm_, k_norm_})
    norm->parameters()[0].fill_(std::pow(static_cast<double>(layer_.head_width), -0.25));
  for (const RmsNorm& norm : {post_attn_norm_, post_ffn_norm_})
    norm->parameters()[0].fill_(1 / std::sqrt(2.0 * static_cast<double>(shape.layers)));
}

torch::Tensor CanvasBlockImpl::attend(const torch::Tensor& h, const Sequence& sequence) {
  const auto split_heads = [this](const torch::Tensor& y) {  // [B, T, H D] -> [B, H, T, D]
    return y.view({y.size(0), y.size(1), -1, layer_.head_width}).transpose(1, 2);
  };
  const auto with_rope = [&](const torch::Tensor& y) { return apply_rope(y, sequence.cos, sequence.sin); };
  const torch::Tensor q = with_rope(q_norm_(split_heads(q_(h))));
  const torch::Tensor raw_k = split_heads(k_(h));
  const torch::Tensor k = with_rope(k_norm_(raw_k));
  const torch::Tensor v = unit_norm(layer_.slides ? split_heads(v_(h)) : raw_k, epsilon_);
  return o_(attention(q, k, v, sequence.visible, /*scale=*/1, /*soft_cap=*/0));
}

torch::Tensor CanvasBlockImpl::shares(const torch::Tensor& rows) {
  const double scale = 1 / std::sqrt(static_cast<double>(rows.size(1)));
  const torch::Tensor scores =
      torch::softmax(router_(unit_norm(rows, epsilon_) * (scale * router_scale_)).to(torch::kFloat32), -1);
  const auto [best, chosen] = scores.topk(per_token_, -1);
  const torch::Tensor shares =
      best / best.sum(-1, /*keepdim=*/true) * expert_scale_.index_select(0, chosen.flatten()).view_as(chosen);
  return torch::zeros({rows.size(0), scores.size(1)}, shares.options()).scatter(1, chosen, shares);
}

torch::Tensor CanvasBlockImpl::experts(const torch::Tensor& h) {
  // Every expert computes every row, as in ExpertsImpl.
  const torch::Tensor rows = h.flatten(0, -2);
  const torch::Tensor of_all = shares(rows);
  const std::vector<torch::Tensor> both = torch::linear(expert_norm_(rows), expert_gate_up_.flatten(0, 1))
                                              .unflatten(1, {of_all.size(1), -1})
                                              .chunk(2, -1);
  const torch::Tensor weighted = (gelu_gated(both[0], both[1]) * of_all.unsqueeze(-1)).flatten(1);
  return torch::linear(weighted, expert_down_.transpose(0, 1).flatten(1)).view(h.sizes());
}

torch::Tensor CanvasBlockImpl::forward(const torch::Tensor& x, const Sequence& sequence) {
  const torch::Tensor h = x + post_attn_norm_(attend(attn_norm_(x), sequence));
  const torch::Tensor normed = ffn_norm_(h);
  const torch::Tensor dense = post_dense_norm_(down_(gelu_gated(gate_(normed), up_(normed))));
  const torch::Tensor both = dense + post_expert_norm_(experts(h));
  return (h + post_ffn_norm_(both)) * layer_scalar_;
}

SelfConditioningImpl::SelfConditioningImpl(const ModelShape& shape)
    : norm_(register_module("norm", RmsNorm(shape.width, shape))),
      gate_(register_module("gate", linear(shape.width, shape.ffn_width))),
      up_(register_module("up", linear(shape.width, shape.ffn_width))),
      down_(register_module("down", linear(shape.ffn_width, shape.width))) {}

torch::Tensor SelfConditioningImpl::forward(const torch::Tensor& soft) {
  const torch::Tensor n = norm_(soft);
  return down_(gelu_gated(gate_(n), up_(n)));
}

}  // namespace lacuna::train
