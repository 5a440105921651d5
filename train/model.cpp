#include "train/model.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "train/canvas_model.h"
#include "train/fused.h"
#include "train/recompute.h"

namespace lacuna::train {
namespace {

torch::nn::Linear linear(int64_t inputs, int64_t outputs) {
  return torch::nn::Linear(torch::nn::LinearOptions(inputs, outputs).bias(false));
}

constexpr double kBalanceGradient = 1e-6;  // small, so that it hardly affects gradient clipping

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

/// Positions that a row must not attend to by the rules of the family alone.
torch::Tensor unseen_by_family(const ModelShape& shape, int64_t length) {
  if (shape.causal()) return unseen_by_blocks(length, 1);
  if (shape.objective() == Objective::kBlocks) return unseen_by_blocks(length, shape.block_length);
  return {};
}

/// `positions` [T], or [B, T] if batch entries differ.
Sequence make_sequence(const ModelShape& shape, const torch::Tensor& positions, const torch::Tensor& unseen) {
  const int64_t half = shape.rotary_width() / 2;
  const auto doubles = positions.options().dtype(torch::kFloat64);
  const torch::Tensor frequencies =
      shape.rotations.empty()
          ? torch::pow(shape.rope_theta, -torch::arange(half, doubles) / static_cast<double>(half))
          : torch::tensor(shape.rotations, doubles);
  torch::Tensor angles = positions.to(torch::kFloat64).unsqueeze(-1) * frequencies;
  if (angles.dim() == 3) angles = angles.unsqueeze(1);  // the same for all heads
  torch::Tensor not_seen = unseen.defined() ? unseen : unseen_by_family(shape, positions.size(-1));
  if (not_seen.defined()) not_seen = not_seen.to(positions.device());
  if (shape.traits().kv_sink && not_seen.defined())
    not_seen = torch::cat({torch::zeros_like(not_seen.slice(-1, 0, 1)), not_seen}, -1);
  return {angles.cos().to(torch::kFloat32), angles.sin().to(torch::kFloat32),
          c10::make_intrusive<Visibility>(not_seen)};
}

/// Runs one block, keeping or recomputing its activations. The block must outlive the backward pass.
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

ProjectionImpl::ProjectionImpl(int64_t inputs, int64_t outputs, bool has_bias)
    : LinearImpl(torch::nn::LinearOptions(inputs, outputs).bias(has_bias)) {}

torch::Tensor ProjectionImpl::forward(const torch::Tensor& x) {
  return has_update() ? lora_linear(x, weight, bias, lora_a, lora_b, scale_) : LinearImpl::forward(x);
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
  return down(swiglu(gate(x), up(x)));
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
  const auto with_rope = [&](const torch::Tensor& y) { return apply_rope(y, sequence.cos, sequence.sin); };
  const torch::Tensor q = with_rope(normed_heads(q_(h), heads_, q_norm_));
  torch::Tensor k = with_rope(normed_heads(k_(h), kv_heads_, k_norm_));
  torch::Tensor v = split_heads(v_(h), kv_heads_);
  if (traits_->kv_sink) {
    const auto with_sink = [](const torch::Tensor& sink, const torch::Tensor& y) {
      return torch::cat({sink.unsqueeze(0).unsqueeze(2).expand({y.size(0), -1, -1, -1}), y}, 2);
    };
    k = with_sink(k_sink_, k);
    v = with_sink(v_sink_, v);
  }
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(-1)));
  return o_(attention(q, k, v, sequence.visible, scale, traits_->attn_soft_cap));
}

torch::Tensor BlockImpl::feed_forward(const torch::Tensor& h) {
  if (experts_) return experts_(h);
  if (traits_->squared_relu) return down_(torch::relu(up_(h)).square());
  return down_(swiglu(gate_(h), up_(h)));
}

torch::Tensor BlockImpl::forward(const torch::Tensor& x, const Sequence& sequence) {
  // Rounded once for all matrices that read it.
  const auto operand = [](const torch::Tensor& h) { return h.to(matmul_dtype(h)); };
  const auto sum = [this](const torch::Tensor& residual, const torch::Tensor& y) {
    const torch::Tensor wide = y.to(residual.scalar_type());
    return residual + (branch_scale_ == 1 ? wide : branch_scale_ * wide);
  };
  const torch::Tensor y = sum(x, attend(operand(attn_norm_(x)), sequence));
  return sum(y, feed_forward(operand(ffn_norm_(y))));
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
  torch::Tensor x = embed_tokens(tokens, embedding_->weight, !head_);
  std::vector<torch::Tensor> after;
  for (const auto& block : *blocks_)
    after.push_back(x = run_block(*block->as<Block>(), x, sequence, keeps_activations_));
  return after;
}

std::vector<torch::Tensor> TransformerImpl::canvas_residuals(const torch::Tensor& tokens,
                                                             const torch::Tensor& positions,
                                                             const torch::Tensor& unseen,
                                                             const CanvasRows& canvas) {
  torch::Tensor x =
      embed_tokens(tokens, embedding_->weight, !head_) * std::sqrt(static_cast<double>(shape_.width));
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

void TransformerImpl::keep_matrices_in(torch::ScalarType type) {
  for (const auto& module : modules(/*include_self=*/false)) {
    const auto linear = std::dynamic_pointer_cast<torch::nn::LinearImpl>(module);
    if (linear) linear->weight.set_data(linear->weight.detach().to(type));
  }
  embedding_->weight.set_data(embedding_->weight.detach().to(type));
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

double TransformerImpl::logit_scale() const {
  const double width = shape_.traits().head_scale_width;
  return width > 0 ? width / static_cast<double>(shape_.width) : 1;
}

torch::Tensor TransformerImpl::logits(const torch::Tensor& hidden) {
  const torch::Tensor logits = torch::linear(hidden, head());
  const double cap = shape_.traits().logit_soft_cap;
  if (cap > 0) return cap * torch::tanh(logits.to(torch::kFloat32) / cap);
  return logit_scale() == 1 ? logits : logits * logit_scale();
}

}  // namespace lacuna::train
