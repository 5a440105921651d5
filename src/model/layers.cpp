// The layers of a pre-norm transformer: embed; per layer norm, attend, add, norm, feed forward, add. Families
// differ by flags of ModelConfig.
#include <cmath>
#include <numeric>

#include "model/pass.h"
#include "model/router.h"

namespace lacuna {

Model::Pass::Pass(const Model& model, const KernelContext& context, const StepPlan& plan,
                  std::span<KvCache* const> caches, Workspace& workspace)
    : config_(model.config_),
      part_(model.part_),
      parameters_(model.parameters_),
      frequencies_(model.rope_frequencies_),
      sliding_frequencies_(model.sliding_frequencies_),
      ones_(model.ones_),
      dtype_(model.dtype_),
      embedding_scale_(model.embedding_scale()),
      context_{context.kernels, context.threads, model.int8_activations_},
      kernels_(context.kernels),
      plan_(plan),
      caches_(caches),
      ws_(workspace),
      exchange_(part_, model.ranks_.get(), context.threads,
                {ws_.gathered, ws_.kv_sums, ws_.sent, ws_.received}),
      residual_(sized(ws_.residual, plan.num_rows(), config_.hidden_dim)),
      row_sequence_(plan.tokens.size()),
      row_group_(plan.tokens.size()) {
  ws_.times = {};
  for (size_t g = 0; g < plan_.groups.size(); ++g) {
    const auto& [begin, end] = plan_.groups[g].rows;
    std::fill(row_sequence_.begin() + begin, row_sequence_.begin() + end, plan_.groups[g].sequence);
    std::fill(row_group_.begin() + begin, row_group_.begin() + end, static_cast<int32_t>(g));
  }
}

namespace {

/// Extends the tables of cosines and sines up to position `last`.
void extend_rotations(const std::vector<float>& frequencies, const RopeConfig& rope, int32_t last,
                      LayerKind& kind) {
  const auto half = static_cast<int64_t>(frequencies.size());
  for (auto known = static_cast<int64_t>(kind.cosines.size()) / half; known <= last; ++known) {
    for (const float frequency : frequencies) {
      // The angle is f32, as in the reference; cos and sin are double.
      const float angle = static_cast<float>(known) * frequency;
      kind.cosines.push_back(static_cast<float>(std::cos(double{angle})) * rope.attention_scaling);
      kind.sines.push_back(static_cast<float>(std::sin(double{angle})) * rope.attention_scaling);
    }
  }
}

}  // namespace

void Model::Pass::run_layers() {
  prepare();
  if (part_.cuts(ShardBy::kLayers)) return run_stages();
  if (part_.cuts(ShardBy::kRows)) return compute_own_rows();
  compute(all_rows());
}

void Model::Pass::compute(IndexRange rows) {
  take(rows);
  const ModelPart::Range layers = part_.layers(config_.num_layers);
  ws_.layer = layers.begin;
  prepare_attention();
  if (part_.embeds()) embed();
  for (int64_t layer = layers.begin; layer < layers.end; ++layer) {
    ws_.layer = layer;
    if (reuses_layers_) take_layer_rows(parameters_.layers[static_cast<size_t>(layer)]);
    if (config_.knows_noise_levels()) modulate(layer);
    attend(layer);
    if (num_rows_ > 0) {  // else other ranks have all rows, or only K/V or what rows kept are needed
      feed_forward(parameters_.layers[static_cast<size_t>(layer)]);
      if (config_.knows_noise_levels()) gate(layer);
      if (config_.layer_scalars) scale_rows(parameters_.layers[static_cast<size_t>(layer)]);
    }
    if (reuses_layers_) return_layer_rows();
  }
}

void Model::Pass::take(IndexRange rows) {
  rows_ = rows;
  listed_ = {};
  set_place(rows);
}

void Model::Pass::set_place(IndexRange place) {
  place_ = place;
  num_rows_ = place.size();
  x_ = residual_.rows_from(place.begin, num_rows_);
  projected_ = sized(ws_.projected, num_rows_, config_.hidden_dim);
}

void Model::Pass::prepare() {
  ws_.staying_rows.clear();
  list_whole_rows();
  evicts_ = std::any_of(plan_.groups.begin(), plan_.groups.end(),
                        [](const RowGroup& group) { return group.eviction.target > 0; });
  expects(!evicts_ || (part_.is_whole() && config_.mask_id >= 0 && config_.num_layers > 1),
          "masks are evicted from passes of whole models with two layers and a mask token");
  reuses_layers_ = std::any_of(plan_.groups.begin(), plan_.groups.end(),
                               [](const RowGroup& group) { return group.reuse.keeps; });
  expects(!reuses_layers_ || (part_.is_whole() && ws_.residual_row.empty() && !config_.layer_scalars),
          "rows that keep what layers add are computed whole, by one rank");
  const int32_t last = *std::max_element(plan_.positions.begin(), plan_.positions.end());
  extend_rotations(frequencies_, config_.rope, last, ws_.everything);
  if (config_.sliding) extend_rotations(sliding_frequencies_, config_.sliding->rope, last, ws_.sliding);

  if (plan_.measures_kv_drift) {
    ws_.kv_drift.assign(2 * plan_.tokens.size() * static_cast<size_t>(config_.num_layers), 0);
    int64_t heads = 0;
    for (int64_t layer = 0; layer < config_.num_layers; ++layer) heads = std::max(heads, own_kv_heads(layer));
    ws_.own_kv_sums.reserve(plan_.num_rows() * 2 * heads);
  }
}

void Model::Pass::embed() {
  const float scale = embedding_scale_;
  for_each_row([&](int64_t row) {
    parameters_.embedding.read_row(plan_.tokens[static_cast<size_t>(plan_row(row))], x_.row(row));
    if (scale == 1) return;
    for (float& value : x_.row_span(row)) value *= scale;
  });
  if (!plan_.mixed.empty()) mix_with_mask();
  ws_.times.other += watch_.restart();
  if (config_.canvas) condition_canvases();
  if (config_.knows_noise_levels()) embed_noise_levels();
}

void Model::Pass::mix_with_mask() {
  expects(config_.mask_id >= 0, "rows are mixed with the mask of a model that has one");
  std::vector<float> mask(static_cast<size_t>(config_.hidden_dim));
  parameters_.embedding.read_row(config_.mask_id, mask.data());
  for (float& value : mask) value *= embedding_scale_;
  const auto length = [](std::span<const float> values) {
    double sum = 0;
    for (const float value : values) sum += double{value} * value;
    return std::sqrt(sum);
  };
  const double mask_length = length(mask);
  for_each_row(std::ssize(plan_.mixed), [&](int64_t i) {
    const MixedRow& mixed = plan_.mixed[static_cast<size_t>(i)];
    if (mixed.row < rows_.begin || mixed.row >= rows_.end) return;
    const std::span<float> x = residual_.row_span(mixed.row);
    const double target = mixed.weight * length(x) + (1 - double{mixed.weight}) * mask_length;
    for (size_t j = 0; j < x.size(); ++j) x[j] = mixed.weight * x[j] + (1 - mixed.weight) * mask[j];
    constexpr double kMinLength = 1e-6;  // as published
    const auto scale = static_cast<float>(target / (length(x) + kMinLength));
    for (float& value : x) value *= scale;
  });
}

void Model::Pass::condition_canvases() {
  ws_.canvas_rows.clear();
  ws_.conditioned_rows.clear();
  for (const RowGroup& group : plan_.groups) {
    const int32_t end = std::min(group.rows.end, rows_.end);
    for (int32_t row = std::max(group.rows.begin, rows_.begin); row < end; ++row) {
      if (group.canvas != CanvasRows::kNone) ws_.canvas_rows.push_back(row);
      if (group.canvas == CanvasRows::kConditioned) ws_.conditioned_rows.push_back(row);
    }
  }
  const auto num_conditioned = static_cast<int64_t>(ws_.conditioned_rows.size());
  if (num_conditioned > 0) {
    const Conditioning& conditioning = *parameters_.conditioning;
    ws_.packed.pack_each(context_, num_conditioned, config_.hidden_dim, dtype_, [&](int64_t i, float* space) {
      const auto row = static_cast<size_t>(ws_.conditioned_rows[static_cast<size_t>(i)]);
      const KvCache& cache = *caches_[static_cast<size_t>(row_sequence_[row])];
      norm(cache.soft_embeddings().row(plan_.cells[row]), conditioning.norm, space);
      return space;
    });
    activated_product(conditioning.ffn, num_conditioned, config_.canvas->conditioning_dim);
    for_each_row(num_conditioned, [&](int64_t i) {
      float* x = residual_.row(ws_.conditioned_rows[static_cast<size_t>(i)]);
      kernels_.add_scaled(x, projected_.row(i), 1, config_.hidden_dim);
    });
  }
  if (config_.canvas->ancestral) return;
  for_each_row(static_cast<int64_t>(ws_.canvas_rows.size()), [&](int64_t i) {
    float* x = residual_.row(ws_.canvas_rows[static_cast<size_t>(i)]);
    norm(x, ones_, x);
  });
  ws_.times.other += watch_.restart();
}

void Model::Pass::scale_rows(const LayerParameters& layer) {
  for_each_row([&](int64_t row) {
    const auto index = static_cast<size_t>(plan_row(row));
    const RowGroup& group = plan_.groups[static_cast<size_t>(row_group_[index])];
    const bool is_read = group.canvas == CanvasRows::kNone;
    const float scalar = is_read ? layer.encoder_scalar : layer.layer_scalar;
    for (float& value : x_.row_span(row)) value *= scalar;
  });
  ws_.times.other += watch_.restart();
}

void Model::Pass::feed_forward(const LayerParameters& layer) {
  if (layer.experts.empty()) {
    pack_normed(layer.ffn_norm);
    activated_product(layer.ffn, num_rows_, config_.ffn_dim);
    return add_projected(layer.post_ffn_norm);
  }
  if (config_.moe.parallel_dense) return feed_forward_in_parallel(layer);
  norm_all(layer.ffn_norm);
  route(layer);
  run_experts(layer, x_);
  if (config_.moe.shared_ffn_dim == 0) return;
  pack(normed_, ws_.times.ffn);
  activated_product(layer.shared_expert, num_rows_, config_.moe.shared_ffn_dim);
  add_projected({});
}

void Model::Pass::feed_forward_in_parallel(const LayerParameters& layer) {
  pack_normed(layer.ffn_norm);
  activated_product(layer.ffn, num_rows_, config_.ffn_dim);
  const Matrix<float> dense = sized(ws_.dense, num_rows_, config_.hidden_dim);
  const Matrix<float> sum = sized(ws_.expert_sum, num_rows_, config_.hidden_dim);
  for_each_row([&](int64_t row) {
    norm(projected_.row(row), layer.post_dense_norm, dense.row(row));
    std::fill_n(sum.row(row), config_.hidden_dim, 0.0F);
  });
  norm_all(layer.router_norm);
  route(layer);
  norm_all(layer.expert_norm);
  run_experts(layer, sum);
  for_each_row([&](int64_t row) {
    float* y = projected_.row(row);
    norm(sum.row(row), layer.post_expert_norm, y);
    kernels_.add_scaled(y, dense.row(row), 1, config_.hidden_dim);
  });
  ws_.times.norms += watch_.restart();
  add_projected(layer.post_ffn_norm);
}

void Model::Pass::norm(const float* x, const std::vector<float>& weight, float* out) const {
  const int64_t dim = config_.hidden_dim;
  if (!config_.layer_norm) return kernels_.rms_norm(x, weight.data(), dim, config_.norm_eps, out);
  // LayerNorm: RMSNorm after subtracting the mean, plus a bias.
  const auto mean = static_cast<float>(std::accumulate(x, x + dim, 0.0) / static_cast<double>(dim));
  std::transform(x, x + dim, out, [mean](float value) { return value - mean; });
  kernels_.rms_norm(out, weight.data(), dim, config_.norm_eps, out);
  kernels_.add_scaled(out, weight.data() + dim, 1, dim);
}

void Model::Pass::norm_all(const std::vector<float>& weight) {
  normed_ = sized(ws_.normed, num_rows_, config_.hidden_dim);
  for_each_row([&](int64_t row) { norm(x_.row(row), weight, normed_.row(row)); });
  ws_.times.norms += watch_.restart();
}

void Model::Pass::activated_product(const FeedForward& ffn, int64_t rows, int64_t dim) {
  if (!part_.cuts(ShardBy::kOutputs)) {
    activate_whole(ffn, rows, dim);
  } else {
    const Matrix<float> own = sized(ws_.own_outputs, rows, part_.outputs(dim).size());
    activate_own(ffn, own);
    ws_.packed.pack(context_, exchange_.all_outputs(own, dim, dtype_), {}, dtype_);
  }
  ws_.times.other += watch_.restart();
  whole_product(ffn.down, projected_.first_rows(rows), ws_.times.ffn);
}

void Model::Pass::activate_whole(const FeedForward& ffn, int64_t rows, int64_t dim) {
  const Matrix<float> up = sized(ws_.up, rows, dim);
  product(ffn.up, up, ws_.times.ffn);
  if (config_.activation == Activation::kSquaredRelu) {
    ws_.packed.pack_each(context_, rows, dim, dtype_, [&](int64_t row, float* /*space*/) {
      kernels_.squared_relu(up.row(row), dim);
      return up.row(row);
    });
    return;
  }
  if (ffn.gate.weight.view().outputs == 0) {
    ws_.packed.pack_each(context_, rows, dim, dtype_, [&](int64_t row, float* space) {
      kernels_.swiglu(up.row(row), ones_.data(), dim, space);
      return space;
    });
    return;
  }
  const Matrix<float> gate = sized(ws_.gate, rows, dim);
  product(ffn.gate, gate, ws_.times.ffn);
  const auto activate = config_.activation == Activation::kGeluTanh ? kernels_.geglu : kernels_.swiglu;
  ws_.packed.pack_each(context_, rows, dim, dtype_, [&](int64_t row, float* space) {
    activate(gate.row(row), up.row(row), dim, space);
    return space;
  });
}

void Model::Pass::activate_own(const FeedForward& ffn, Matrix<float> out) {
  if (config_.activation == Activation::kSquaredRelu) {
    product(ffn.up, out, ws_.times.ffn);
    return for_each_row(out.rows, [&](int64_t row) { kernels_.squared_relu(out.row(row), out.cols); });
  }
  const Matrix<float> up = sized(ws_.up, out.rows, out.cols);
  const Matrix<float> gate = sized(ws_.gate, out.rows, out.cols);
  product(ffn.up, up, ws_.times.ffn);
  product(ffn.gate, gate, ws_.times.ffn);
  const auto activate = config_.activation == Activation::kGeluTanh ? kernels_.geglu : kernels_.swiglu;
  for_each_row(out.rows, [&](int64_t row) { activate(gate.row(row), up.row(row), out.cols, out.row(row)); });
}

void Model::Pass::route(const LayerParameters& layer) {
  const MoeConfig& moe = config_.moe;
  const auto num_chosen = static_cast<size_t>(moe.experts_per_token);
  const Matrix<float> logits = sized(ws_.router_logits, num_rows_, moe.num_experts);
  ws_.packed.pack(context_, normed_, {}, moe.router_in_f32 ? DType::kF32 : dtype_);
  product(layer.router, logits, ws_.times.ffn);
  ws_.expert_choices.resize(static_cast<size_t>(num_rows_) * num_chosen);
  const auto choices_of = [&](int64_t row) {
    return std::span(ws_.expert_choices).subspan(static_cast<size_t>(row) * num_chosen, num_chosen);
  };
  find_pools(layer, logits);
  for_each_row([&](int64_t row) {
    const std::span<const int32_t> pool =
        moe.window > 0 ? std::span<const int32_t>(ws_.pools[ws_.pool_of_row[static_cast<size_t>(row)]])
                       : std::span<const int32_t>();
    choose_experts(moe, logits.row_span(row), layer.expert_bias, pool, choices_of(row));
    if (layer.expert_scale.empty()) return;
    for (ExpertChoice& choice : choices_of(row))
      choice.weight *= layer.expert_scale[static_cast<size_t>(choice.expert)];
  });

  ws_.expert_rows.resize(layer.experts.size());
  ws_.expert_weights.resize(layer.experts.size());
  for (size_t e = 0; e < layer.experts.size(); ++e) {
    ws_.expert_rows[e].clear();
    ws_.expert_weights[e].clear();
  }
  // With a parallel dense layer, add_projected() scales the experts' output too.
  const float scale = moe.parallel_dense ? 1 : config_.residual_scale;
  for (int64_t row = 0; row < num_rows_; ++row) {
    for (const ExpertChoice& choice : choices_of(row)) {
      ws_.expert_rows[static_cast<size_t>(choice.expert)].push_back(static_cast<int32_t>(row));
      ws_.expert_weights[static_cast<size_t>(choice.expert)].push_back(scale * choice.weight);
    }
  }
  ws_.times.other += watch_.restart();
}

void Model::Pass::find_pools(const LayerParameters& layer, ConstMatrix<float> logits) {
  const int64_t window = config_.moe.window;
  if (window == 0) return;
  ws_.pools.clear();
  ws_.pool_of_row.resize(static_cast<size_t>(num_rows_));
  for (const Attention::Group& group : ws_.everything.groups) {
    for (int32_t begin = group.rows.begin; begin < group.rows.end;) {
      const auto window_of = [&](int32_t row) {
        return plan_.positions[static_cast<size_t>(plan_row(row))] / window;
      };
      int32_t end = begin;
      while (end < group.rows.end && window_of(end) == window_of(begin)) ++end;
      std::fill(ws_.pool_of_row.begin() + begin, ws_.pool_of_row.begin() + end, ws_.pools.size());
      ws_.pools.push_back(choose_pool(
          config_.moe, {logits.row(begin), end - begin, logits.cols, logits.stride}, layer.expert_bias));
      begin = end;
    }
  }
}

namespace {

void add_weighted(float* sum, float weight, const float* values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) sum[i] += weight * values[i];
}

}  // namespace

void Model::Pass::run_experts(const LayerParameters& layer, Matrix<float> sum) {
  if (part_.cuts(ShardBy::kOutputs)) return run_experts_in_parts(layer, sum);
  for (size_t e = 0; e < layer.experts.size(); ++e) run_expert(layer.experts[e], e, sum);
}

void Model::Pass::run_expert(const FeedForward& expert, size_t index, Matrix<float> sum) {
  const std::vector<int32_t>& rows = ws_.expert_rows[index];
  if (rows.empty()) return;
  ws_.packed.pack(context_, normed_, rows, dtype_);
  const auto count = static_cast<int64_t>(rows.size());
  activated_product(expert, count, config_.moe.expert_ffn_dim);
  for_each_row(count, [&](int64_t i) {
    const float weight = ws_.expert_weights[index][static_cast<size_t>(i)];
    add_weighted(sum.row(rows[static_cast<size_t>(i)]), weight, projected_.row(i), config_.hidden_dim);
  });
  ws_.times.other += watch_.restart();
}

void Model::Pass::run_experts_in_parts(const LayerParameters& layer, Matrix<float> sum) {
  int64_t total = 0;
  for (const std::vector<int32_t>& rows : ws_.expert_rows) total += std::ssize(rows);
  const int64_t dim = config_.moe.expert_ffn_dim;
  const Matrix<float> own = sized(ws_.expert_activations, total, part_.outputs(dim).size());
  const auto for_each_expert = [&](auto&& compute) {
    int64_t first = 0;
    for (size_t e = 0; e < layer.experts.size(); ++e) {
      const auto count = std::ssize(ws_.expert_rows[e]);
      if (count > 0) compute(e, first, count);
      first += count;
    }
  };
  for_each_expert([&](size_t e, int64_t first, int64_t count) {
    ws_.packed.pack(context_, normed_, ws_.expert_rows[e], dtype_);
    activate_own(layer.experts[e], {own.row(first), count, own.cols, own.stride});
  });
  const Matrix<float> all = exchange_.all_outputs(own, dim, dtype_);

  const ModelPart::Range columns = part_.outputs(config_.hidden_dim);
  const Matrix<float> own_sum = sum.columns(columns.begin, columns.size());
  for_each_expert([&](size_t e, int64_t first, int64_t count) {
    ws_.packed.pack(context_, {all.row(first), count, all.cols, all.stride}, {}, dtype_);
    const Matrix<float> out = sized(ws_.own_outputs, count, columns.size());
    product(layer.experts[e].down, out, ws_.times.ffn);
    for_each_row(count, [&](int64_t i) {
      const auto index = static_cast<size_t>(i);
      add_weighted(own_sum.row(ws_.expert_rows[e][index]), ws_.expert_weights[e][index], out.row(i),
                   out.cols);
    });
  });
  exchange_.gather_outputs(own_sum, sum.first_rows(num_rows_), DType::kF32);
  ws_.times.other += watch_.restart();
}

void Model::Pass::pack_normed(const std::vector<float>& weight) {
  ws_.packed.pack_each(context_, num_rows_, config_.hidden_dim, dtype_, [&](int64_t row, float* space) {
    norm(x_.row(row), weight, space);
    return space;
  });
  ws_.times.norms += watch_.restart();
}

void Model::Pass::add_projected(const std::vector<float>& weight) {
  for_each_row([&](int64_t row) {
    if (!weight.empty()) norm(projected_.row(row), weight, projected_.row(row));
    kernels_.add_scaled(x_.row(row), projected_.row(row), config_.residual_scale, config_.hidden_dim);
  });
  ws_.times.other += watch_.restart();
}

void Model::Pass::pack(ConstMatrix<float> rows, double& seconds) {
  ws_.packed.pack(context_, rows, {}, dtype_);
  seconds += watch_.restart();
}

void Model::Pass::product(const Linear& linear, Matrix<float> out, double& seconds) {
  if (linear.weight.view().outputs == 0 || out.rows == 0) return;  // other ranks have all outputs
  const float* const bias = linear.bias_or_null();
  multiply(context_, ws_.packed, linear.weight.view(), linear.scale == 1 ? bias : nullptr, out);
  if (linear.scale != 1) {
    for_each_row(out.rows, [&](int64_t row) {
      float* const values = out.row(row);
      for (int64_t i = 0; i < out.cols; ++i)
        values[i] = linear.scale * values[i] + (bias != nullptr ? bias[i] : 0);
    });
  }
  seconds += watch_.restart();
}

}  // namespace lacuna
