#include "train/model.h"

#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "train/canvas_model.h"
#include "train/recompute.h"

namespace lacuna::train {
namespace {

torch::nn::Linear linear(int64_t inputs, int64_t outputs) {
  return torch::nn::Linear(torch::nn::LinearOptions(inputs, outputs).bias(false));
}

/// Rotates the halves of what positions turn of each head against each other: x [B, H, T, D], cos and sin as
/// in Sequence.
torch::Tensor rotate(const torch::Tensor& x, const Sequence& sequence) {
  const torch::Tensor &cos = sequence.cos, &sin = sequence.sin;
  const int64_t half = cos.size(-1);
  const torch::Tensor first = x.slice(-1, 0, half), second = x.slice(-1, half, 2 * half);
  return torch::cat({first * cos - second * sin, second * cos + first * sin, x.slice(-1, 2 * half)}, -1);
}

constexpr double kBalanceGradient = 1e-6;  // small, so that it weighs little where gradients are clipped

/// Identity on the weights that gives the bias its gradient (see Experts).
struct BalancedLoad : torch::autograd::Function<BalancedLoad> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& weights,
                               const torch::Tensor& bias, const torch::Tensor& chosen) {
    const torch::Tensor load = torch::bincount(chosen.flatten(), {}, bias.size(0)).to(torch::kFloat32);
    context->save_for_backward({kBalanceGradient * (load - load.mean())});
    return weights.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    return {gradients[0], context->get_saved_variables()[0], torch::Tensor()};
  }
};

/// Sum of f(i) over [0, count), a multiple of 4 or not, in four partial sums.
template <typename Term>
float sum_of(int64_t count, Term&& term) {
  std::array<float, 4> sums = {};
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (int64_t j = 0; j < 4; ++j) sums[static_cast<size_t>(j)] += term(i + j);
  }
  for (; i < count; ++i) sums[0] += term(i);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/// RMSNorm with one loop over each row instead of an operation for each of its terms: in models as narrow as
/// these, norms would take a third of a step. f32 on the CPU.
struct FusedRmsNorm : torch::autograd::Function<FusedRmsNorm> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& any_x,
                               const torch::Tensor& weight, double epsilon) {
    const torch::Tensor x = any_x.contiguous();
    const int64_t width = x.size(-1), rows = x.numel() / width;
    torch::Tensor y = torch::empty_like(x), scales = torch::empty({rows});
    const float* const w = weight.data_ptr<float>();
    for (int64_t row = 0; row < rows; ++row) {
      const float* const in = x.data_ptr<float>() + row * width;
      float* const out = y.data_ptr<float>() + row * width;
      const float squares = sum_of(width, [&](int64_t i) { return in[i] * in[i]; });
      const float scale = 1 / std::sqrt(squares / static_cast<float>(width) + static_cast<float>(epsilon));
      scales.data_ptr<float>()[row] = scale;
      for (int64_t i = 0; i < width; ++i) out[i] = in[i] * scale * w[i];
    }
    context->save_for_backward({x, weight, scales});
    return y;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const torch::Tensor gradient = gradients[0].contiguous();
    const int64_t width = gradient.size(-1), rows = gradient.numel() / width;
    torch::Tensor of_x = torch::empty_like(saved[0]), of_weight = torch::zeros_like(saved[1]);
    const float* const w = saved[1].data_ptr<float>();
    float* const dw = of_weight.data_ptr<float>();
    for (int64_t row = 0; row < rows; ++row) {
      const float* const in = saved[0].data_ptr<float>() + row * width;
      const float* const g = gradient.data_ptr<float>() + row * width;
      float* const dx = of_x.data_ptr<float>() + row * width;
      const float scale = saved[2].data_ptr<float>()[row];
      const float dot = sum_of(width, [&](int64_t i) { return g[i] * w[i] * in[i]; });
      const float along = dot * scale * scale / static_cast<float>(width);
      for (int64_t i = 0; i < width; ++i) {
        dx[i] = scale * (g[i] * w[i] - in[i] * along);
        dw[i] += g[i] * in[i] * scale;
      }
    }
    return {of_x, of_weight, torch::Tensor()};
  }
};

/// Positions that a row must not attend to by the rules of the family alone.
torch::Tensor unseen_by_family(const ModelShape& shape, int64_t length) {
  if (shape.causal()) return unseen_by_blocks(length, 1);
  if (shape.objective() == Objective::kBlocks) return unseen_by_blocks(length, shape.block_length);
  return {};
}

/// `positions` [T], or [B, T] where each row has its own.
Sequence make_sequence(const ModelShape& shape, const torch::Tensor& positions, const torch::Tensor& unseen) {
  const int64_t half = shape.rotary_width() / 2;
  const auto doubles = positions.options().dtype(torch::kFloat64);
  const torch::Tensor frequencies =
      shape.rotations.empty()
          ? torch::pow(shape.rope_theta, -torch::arange(half, doubles) / static_cast<double>(half))
          : torch::tensor(shape.rotations, doubles);
  torch::Tensor angles = positions.to(torch::kFloat64).unsqueeze(-1) * frequencies;
  if (angles.dim() == 3) angles = angles.unsqueeze(1);  // the same for all heads
  Sequence sequence{angles.cos().to(torch::kFloat32), angles.sin().to(torch::kFloat32), unseen};
  if (!unseen.defined()) sequence.unseen = unseen_by_family(shape, positions.size(-1));
  if (sequence.unseen.defined()) sequence.unseen = sequence.unseen.to(positions.device());
  if (shape.traits().kv_sink && sequence.unseen.defined()) {
    const torch::Tensor seen = torch::zeros_like(sequence.unseen.slice(-1, 0, 1));
    sequence.unseen = torch::cat({seen, sequence.unseen}, -1);
  }
  return sequence;
}

/// One block, which lives as long as the model; its activations are kept or computed again.
template <typename AnyBlock>
torch::Tensor run_block(AnyBlock& block, const torch::Tensor& x, const Sequence& sequence,
                        bool keeps_activations) {
  if (keeps_activations) return block.forward(x, sequence);
  std::vector<torch::Tensor> learned;
  for (const torch::Tensor& parameter : block.parameters()) {
    if (parameter.requires_grad()) learned.push_back(parameter);
  }
  return recomputed([&block, sequence](const torch::Tensor& input) { return block.forward(input, sequence); },
                    x, learned);
}

}  // namespace

torch::Tensor unseen_by_blocks(int64_t length, int64_t block_length) {
  const torch::Tensor block = torch::arange(length).div(block_length, "floor");
  return block.unsqueeze(1) < block.unsqueeze(0);
}

RmsNormImpl::RmsNormImpl(int64_t width, const ModelShape& shape)
    : weight_(register_parameter("weight",
                                 shape.traits().norm_offset ? torch::zeros({width}) : torch::ones({width}))),
      epsilon_(shape.epsilon()),
      offset_(shape.traits().norm_offset) {}

torch::Tensor RmsNormImpl::forward(const torch::Tensor& x) {
  return rms_norm(x, offset_ ? 1 + weight_ : weight_, epsilon_);
}

torch::Tensor rms_norm(const torch::Tensor& x, const torch::Tensor& weight, double epsilon) {
  const torch::Tensor wide = x.to(torch::kFloat32);
  if (x.device().is_cpu() && weight.scalar_type() == torch::kFloat32)
    return FusedRmsNorm::apply(wide, weight, epsilon);
  return wide * torch::rsqrt(wide.square().mean(-1, /*keepdim=*/true) + epsilon) * weight;
}

ProjectionImpl::ProjectionImpl(int64_t inputs, int64_t outputs, bool has_bias)
    : LinearImpl(torch::nn::LinearOptions(inputs, outputs).bias(has_bias)) {}

torch::Tensor ProjectionImpl::forward(const torch::Tensor& x) {
  const torch::Tensor y = LinearImpl::forward(x);
  return has_update() ? y + scale_ * torch::linear(torch::linear(x, lora_a), lora_b) : y;
}

void ProjectionImpl::add_update(int64_t rank, double scale) {
  const double bound = 1 / std::sqrt(static_cast<double>(weight.size(1)));
  scale_ = scale;
  lora_a = register_parameter("lora_a",
                              torch::empty({rank, weight.size(1)}, weight.options()).uniform_(-bound, bound));
  lora_b = register_parameter("lora_b", torch::zeros({weight.size(0), rank}, weight.options()));
}

torch::Tensor ProjectionImpl::merged() const {
  return has_update() ? weight + scale_ * torch::matmul(lora_b, lora_a) : weight;
}

GatedImpl::GatedImpl(int64_t width, int64_t ffn_width)
    : gate(register_module("gate", linear(width, ffn_width))),
      up(register_module("up", linear(width, ffn_width))),
      down(register_module("down", linear(ffn_width, width))) {}

torch::Tensor GatedImpl::forward(const torch::Tensor& x) {
  return down(torch::silu(gate(x)) * up(x));
}

ExpertsImpl::ExpertsImpl(const ModelShape& shape)
    : per_token_(shape.experts.per_token),
      router_(register_parameter("router", torch::randn({shape.experts.count, shape.width}) /
                                               std::sqrt(static_cast<double>(shape.width)))),
      expert_bias_(register_parameter("expert_bias", torch::zeros({shape.experts.count}))),
      experts_(register_module("experts", torch::nn::ModuleList())),
      shared_(register_module("shared", Gated(shape.width, shape.experts.ffn_width))) {
  for (int64_t i = 0; i < shape.experts.count; ++i) {
    experts_->push_back(Gated(shape.width, shape.experts.ffn_width));
  }
}

torch::Tensor ExpertsImpl::forward(const torch::Tensor& x) {
  const torch::Tensor rows = x.flatten(0, -2);
  const torch::Tensor scores = torch::sigmoid(torch::matmul(rows, router_.t()).to(torch::kFloat32));
  torch::Tensor chosen;  // [rows, per token]
  {
    const torch::NoGradGuard no_grad;
    const torch::Tensor ranks = (scores + expert_bias_).view({rows.size(0), kExpertGroups, -1});
    const torch::Tensor of_groups = std::get<0>(ranks.topk(2, -1)).sum(-1);
    const torch::Tensor open = std::get<1>(of_groups.topk(kGroupsPerToken, -1));
    const torch::Tensor closed = torch::ones_like(of_groups, torch::kBool).scatter(1, open, false);
    const torch::Tensor candidates =
        ranks.masked_fill(closed.unsqueeze(-1), -std::numeric_limits<double>::infinity()).flatten(1);
    chosen = std::get<1>(candidates.topk(per_token_, -1));
  }
  torch::Tensor weights = BalancedLoad::apply(scores.gather(1, chosen), expert_bias_, chosen);
  weights = kRoutedScale * weights / weights.sum(-1, /*keepdim=*/true);
  // Every expert computes every row, with weight 0 for rows that did not select it: three wide matmuls take
  // less time than gathering each expert's rows, while experts are small.
  const torch::Tensor of_all =
      torch::zeros({rows.size(0), expert_bias_.size(0)}, weights.options()).scatter(1, chosen, weights);
  std::vector<torch::Tensor> gates, ups, downs;
  for (const auto& expert : *experts_) {
    const auto* gated = expert->as<Gated>();
    gates.push_back(gated->gate->weight);
    ups.push_back(gated->up->weight);
    downs.push_back(gated->down->weight);
  }
  const torch::Tensor inner =
      torch::silu(torch::linear(rows, torch::cat(gates))) * torch::linear(rows, torch::cat(ups));
  const torch::Tensor weighted = (inner.unflatten(1, {of_all.size(1), -1}) * of_all.unsqueeze(-1)).flatten(1);
  const torch::Tensor sum = shared_(rows) + torch::linear(weighted, torch::cat(downs, 1));
  return sum.view(x.sizes());
}

BlockImpl::BlockImpl(const ModelShape& shape, int64_t layer)
    : traits_(&shape.traits()),
      heads_(shape.heads),
      kv_heads_(shape.num_kv_heads()),
      branch_scale_(traits_->residual_scale > 0 ? traits_->residual_scale / static_cast<double>(shape.layers)
                                                : 1),
      attn_norm_(register_module("attn_norm", RmsNorm(shape.width, shape))),
      ffn_norm_(register_module("ffn_norm", RmsNorm(shape.width, shape))),
      q_(register_module("q", Projection(shape.width, heads_ * shape.head_width(), traits_->qkv_bias))),
      k_(register_module("k", Projection(shape.width, kv_heads_ * shape.head_width(), traits_->qkv_bias))),
      v_(register_module("v", Projection(shape.width, kv_heads_ * shape.head_width(), traits_->qkv_bias))),
      o_(register_module("o", Projection(heads_ * shape.head_width(), shape.width))) {
  const bool has_experts = traits_->experts && layer > 0;
  if (has_experts) {
    experts_ = register_module("moe", Experts(shape));
  } else {
    const bool is_gated = !traits_->squared_relu;
    if (is_gated) gate_ = register_module("gate", Projection(shape.width, shape.ffn_width));
    up_ = register_module("up", Projection(shape.width, shape.ffn_width, /*bias=*/!is_gated));
    down_ = register_module("down", Projection(shape.ffn_width, shape.width, /*bias=*/!is_gated));
  }
  if (traits_->qk_norm != QkNorm::kNone) {
    const int64_t width = traits_->qk_norm == QkNorm::kHeads ? shape.head_width() : shape.width;
    q_norm_ = register_module("q_norm", RmsNorm(width, shape));
    k_norm_ = register_module("k_norm", RmsNorm(width, shape));
  }
  if (traits_->kv_sink) {
    k_sink_ = register_parameter("k_sink", torch::zeros({shape.heads, shape.head_width()}));
    v_sink_ = register_parameter("v_sink", torch::zeros({shape.heads, shape.head_width()}));
  }
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> to_residual = {o_->weight};
  if (!has_experts) to_residual.push_back(down_->weight);
  for (const auto& module : modules(/*include_self=*/false)) {
    if (const auto gated = std::dynamic_pointer_cast<GatedImpl>(module))
      to_residual.push_back(gated->down->weight);
    const auto projection = std::dynamic_pointer_cast<torch::nn::LinearImpl>(module);
    if (!projection) continue;
    const auto inputs = static_cast<double>(projection->weight.size(1));
    projection->weight.normal_(0, traits_->interpolates()
                                      ? kGiddMatrices / std::sqrt(static_cast<double>(shape.width))
                                      : 1 / std::sqrt(inputs));
    if (projection->bias.defined()) projection->bias.zero_();
  }
  if (traits_->residual_scale > 0) return;
  for (const torch::Tensor& weight : to_residual)
    weight.div_(std::sqrt(2.0 * static_cast<double>(shape.layers)));
}

torch::Tensor BlockImpl::attend(const torch::Tensor& h, const Sequence& sequence) {
  const auto split_heads = [](const torch::Tensor& y, int64_t heads) {  // [B, T, H * D] -> [B, H, T, D]
    return y.view({y.size(0), y.size(1), heads, -1}).transpose(1, 2);
  };
  const auto normed_heads = [&](const torch::Tensor& y, int64_t heads, RmsNorm& norm) {
    if (!norm) return split_heads(y, heads);
    return traits_->qk_norm == QkNorm::kHeads ? norm(split_heads(y, heads)) : split_heads(norm(y), heads);
  };
  const torch::Tensor q = rotate(normed_heads(q_(h), heads_, q_norm_), sequence);
  torch::Tensor k = rotate(normed_heads(k_(h), kv_heads_, k_norm_), sequence);
  torch::Tensor v = split_heads(v_(h), kv_heads_);
  if (kv_heads_ < heads_) {  // neighbouring query heads share a key and a value
    k = k.repeat_interleave(heads_ / kv_heads_, 1);
    v = v.repeat_interleave(heads_ / kv_heads_, 1);
  }
  if (traits_->kv_sink) {
    const auto with_sink = [](const torch::Tensor& sink, const torch::Tensor& y) {
      return torch::cat({sink.unsqueeze(0).unsqueeze(2).expand({y.size(0), -1, -1, -1}), y}, 2);
    };
    k = with_sink(k_sink_, k);
    v = with_sink(v_sink_, v);
  }
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(-1)));
  torch::Tensor scores = torch::matmul(q * scale, k.transpose(-1, -2));
  const double cap = traits_->attn_soft_cap;
  if (cap > 0) scores = cap * torch::tanh(scores / cap);
  if (sequence.unseen.defined()) {
    scores = scores.masked_fill(sequence.unseen, -std::numeric_limits<double>::infinity());
  }
  return o_(torch::matmul(torch::softmax(scores, -1), v).transpose(1, 2).flatten(2));
}

torch::Tensor BlockImpl::feed_forward(const torch::Tensor& h) {
  if (experts_) return experts_(h);
  if (traits_->squared_relu) return down_(torch::relu(up_(h)).square());
  return down_(torch::silu(gate_(h)) * up_(h));
}

torch::Tensor BlockImpl::forward(const torch::Tensor& x, const Sequence& sequence) {
  const auto branch = [this](const torch::Tensor& y) { return branch_scale_ == 1 ? y : branch_scale_ * y; };
  const torch::Tensor y = x + branch(attend(attn_norm_(x), sequence));
  return y + branch(feed_forward(ffn_norm_(y)));
}

TransformerImpl::TransformerImpl(const ModelShape& shape)
    : shape_(shape),
      embedding_(register_module("embedding", torch::nn::Embedding(shape.vocabulary, shape.width))),
      blocks_(register_module("blocks", torch::nn::ModuleList())),
      final_norm_(register_module("final_norm", RmsNorm(shape.width, shape))) {
  const bool has_canvases = shape.traits().has_canvases();
  if (has_canvases) {
    conditioning_ = register_module("conditioning", std::make_shared<SelfConditioningImpl>(shape));
  } else if (!shape.tied_head) {
    head_ = register_module("head", linear(shape.width, shape.vocabulary));
  }
  for (int64_t i = 0; i < shape.layers; ++i) {
    if (has_canvases) {
      blocks_->push_back(CanvasBlock(shape, i));
    } else {
      blocks_->push_back(Block(shape, i));
    }
  }

  const torch::NoGradGuard no_grad;
  if (shape.traits().interpolates()) {
    embedding_->weight.normal_(0, kGiddEmbeddings);
    head_->weight.zero_();
    return;
  }
  const double deviation = 1 / std::sqrt(static_cast<double>(shape.width));
  embedding_->weight.normal_(0, deviation);
  if (head_) head_->weight.normal_(0, deviation);
}

torch::Tensor TransformerImpl::hidden(const torch::Tensor& tokens, const torch::Tensor& positions,
                                      const torch::Tensor& unseen, const CanvasRows& canvas) {
  return normed(residuals(tokens, positions, unseen, canvas).back());
}

std::vector<torch::Tensor> TransformerImpl::residuals(const torch::Tensor& tokens,
                                                      const torch::Tensor& positions,
                                                      const torch::Tensor& unseen, const CanvasRows& canvas) {
  const torch::Tensor places =
      positions.defined() ? positions : torch::arange(tokens.size(1), tokens.device());
  if (conditioning_) return canvas_residuals(tokens, places, unseen, canvas);
  const Sequence sequence = make_sequence(shape_, places, unseen);
  torch::Tensor x = embedding_(tokens);
  std::vector<torch::Tensor> after;
  for (const auto& block : *blocks_)
    after.push_back(x = run_block(*block->as<Block>(), x, sequence, keeps_activations_));
  return after;
}

std::vector<torch::Tensor> TransformerImpl::canvas_residuals(const torch::Tensor& tokens,
                                                             const torch::Tensor& positions,
                                                             const torch::Tensor& unseen,
                                                             const CanvasRows& canvas) {
  torch::Tensor x = embedding_(tokens) * std::sqrt(static_cast<double>(shape_.width));
  if (canvas.begin >= 0) {
    torch::Tensor rows = x.slice(1, canvas.begin);
    if (canvas.soft.defined()) rows = rows + conditioning_->forward(canvas.soft);
    x = torch::cat({x.slice(1, 0, canvas.begin), unit_norm(rows, shape_.traits().norm_epsilon)}, 1);
  }
  Sequence sliding, full;
  std::vector<torch::Tensor> after;
  for (const auto& block : *blocks_) {
    auto* const layer = block->as<CanvasBlock>();
    Sequence& sequence = layer->layer().slides ? sliding : full;
    if (!sequence.cos.defined())
      sequence = canvas_sequence(shape_, layer->layer(), positions, unseen, canvas.begin);
    after.push_back(x = run_block(*layer, x, sequence, keeps_activations_));
  }
  return after;
}

void TransformerImpl::add_lora(const LoraShape& lora) {
  const FamilyTraits& traits = shape_.traits();
  if (traits.experts || traits.interpolates())
    throw InputError(
        "--lora: {} learns all of its weights; expected a family without experts and noise levels",
        traits.name);
  for (const torch::Tensor& parameter : parameters()) parameter.set_requires_grad(false);
  for (const auto& module : modules(/*include_self=*/false)) {
    if (const auto projection = std::dynamic_pointer_cast<ProjectionImpl>(module))
      projection->add_update(lora.rank, lora.alpha / static_cast<double>(lora.rank));
  }
  lora_ = lora;
}

Transformer merged_model(const Transformer& model) {
  const torch::NoGradGuard no_grad;
  Transformer merged(model->shape());
  merged->to(model->parameters().front().device());
  const auto modules = model->named_modules();
  const auto parameters = model->named_parameters();
  for (const auto& item : merged->named_parameters()) {
    const std::string& name = item.key();
    const size_t dot = name.rfind('.');
    const auto projection = std::dynamic_pointer_cast<ProjectionImpl>(modules[name.substr(0, dot)]);
    const bool has_update = projection && projection->has_update() && name.substr(dot) == ".weight";
    torch::Tensor values = item.value();
    values.copy_(has_update ? projection->merged() : parameters[name]);
  }
  return merged;
}

torch::OrderedDict<std::string, torch::Tensor> TransformerImpl::learned() const {
  torch::OrderedDict<std::string, torch::Tensor> learned;
  for (const auto& item : named_parameters()) {
    if (item.value().requires_grad()) learned.insert(item.key(), item.value());
  }
  return learned;
}

torch::Tensor TransformerImpl::soft_embedding(const torch::Tensor& probabilities) {
  return torch::matmul(probabilities.to(embedding_->weight.scalar_type()), embedding_->weight) *
         std::sqrt(static_cast<double>(shape_.width));
}

torch::Tensor TransformerImpl::logits(const torch::Tensor& hidden) {
  if (!head_) {
    const torch::Tensor logits = torch::linear(hidden, embedding_->weight);
    const double cap = shape_.traits().logit_soft_cap;
    return cap > 0 ? cap * torch::tanh(logits.to(torch::kFloat32) / cap) : logits;
  }
  const double scaled_width = shape_.traits().head_scale_width;
  const torch::Tensor logits = head_(hidden);
  return scaled_width > 0 ? logits * (scaled_width / static_cast<double>(shape_.width)) : logits;
}

}  // namespace lacuna::train
