// The layers of every pre-norm transformer we know: embed; for each layer norm, attend, add, norm, feed
// forward, add. Families differ by the flags of ModelConfig.
#include <cmath>

#include "model/pass.h"
#include "model/router.h"

namespace lacuna {

Matrix<float> sized(Buffer<float>& buffer, int64_t rows, int64_t cols) {
  const int64_t stride = output_stride(cols);
  buffer.reserve(rows * stride);
  return {buffer.data(), rows, cols, stride};
}

Model::Pass::Pass(const Model& model, const KernelContext& context, const StepPlan& plan,
                  std::span<KvCache* const> caches, Workspace& workspace)
    : config_(model.config_),
      parameters_(model.parameters_),
      frequencies_(model.rope_frequencies_),
      dtype_(model.dtype_),
      context_{context.kernels, context.threads, model.int8_activations_},
      kernels_(context.kernels),
      plan_(plan),
      caches_(caches),
      ws_(workspace),
      num_rows_(plan.num_rows()),
      x_(sized(ws_.residual, num_rows_, config_.hidden_dim)),
      projected_(sized(ws_.projected, num_rows_, config_.hidden_dim)),
      row_sequence_(static_cast<size_t>(num_rows_)) {
  ws_.times = {};
  for (const RowGroup& group : plan_.groups) {
    std::fill(row_sequence_.begin() + group.rows.begin, row_sequence_.begin() + group.rows.end,
              group.sequence);
  }
}

void Model::Pass::run_layers() {
  prepare();
  ws_.layer = 0;
  prepare_attention();
  embed();
  for (int64_t layer = 0; layer < config_.num_layers; ++layer) {
    attend(layer);
    if (num_rows_ == 0) return;  // the last layer; nobody asked for more than K/V
    feed_forward(parameters_.layers[static_cast<size_t>(layer)]);
  }
}

void Model::Pass::prepare() {
  const auto half = static_cast<int64_t>(frequencies_.size());
  const int32_t last = *std::max_element(plan_.positions.begin(), plan_.positions.end());
  for (auto known = static_cast<int64_t>(ws_.cosines.size()) / half; known <= last; ++known) {
    for (int64_t j = 0; j < half; ++j) {
      // The product in f32 as the reference has it, the functions in double.
      const float angle = static_cast<float>(known) * frequencies_[static_cast<size_t>(j)];
      ws_.cosines.push_back(static_cast<float>(std::cos(double{angle})) * config_.rope.attention_scaling);
      ws_.sines.push_back(static_cast<float>(std::sin(double{angle})) * config_.rope.attention_scaling);
    }
  }

  if (plan_.measures_kv_drift) {
    ws_.kv_drift.assign(static_cast<size_t>(2 * num_rows_ * config_.num_layers), 0);
  }
}

void Model::Pass::embed() {
  for_each_row([&](int64_t row) {
    parameters_.embedding.read_row(plan_.tokens[static_cast<size_t>(row)], x_.row(row));
    if (config_.embedding_scale == 1) return;
    for (float& value : x_.row_span(row)) value *= config_.embedding_scale;
  });
  ws_.times.other += watch_.restart();
}

void Model::Pass::feed_forward(const LayerParameters& layer) {
  if (layer.experts.empty()) {
    pack_normed(layer.ffn_norm);
    return feed_all_rows(layer.ffn, config_.ffn_dim);
  }
  // Each row is packed for several experts, and normed once.
  normed_ = sized(ws_.normed, num_rows_, config_.hidden_dim);
  for_each_row([&](int64_t row) { norm(x_.row(row), layer.ffn_norm, normed_.row(row)); });
  ws_.times.norms += watch_.restart();
  route(layer);
  for (size_t e = 0; e < layer.experts.size(); ++e) run_expert(layer.experts[e], e);
  if (config_.moe.shared_ffn_dim == 0) return;
  pack(normed_, ws_.times.ffn);
  feed_all_rows(layer.shared_expert, config_.moe.shared_ffn_dim);
}

void Model::Pass::feed_all_rows(const FeedForward& ffn, int64_t dim) {
  activated_product(ffn, num_rows_, dim);
  add_projected();
}

void Model::Pass::activated_product(const FeedForward& ffn, int64_t rows, int64_t dim) {
  const Matrix<float> up = sized(ws_.up, rows, dim);
  product(ffn.up, up, ws_.times.ffn);
  if (config_.squared_relu) {
    ws_.packed.pack_each(context_, rows, dim, dtype_, [&](int64_t row, float* /*space*/) {
      kernels_.squared_relu(up.row(row), dim);
      return up.row(row);
    });
  } else {
    const Matrix<float> gate = sized(ws_.gate, rows, dim);
    product(ffn.gate, gate, ws_.times.ffn);
    ws_.packed.pack_each(context_, rows, dim, dtype_, [&](int64_t row, float* space) {
      kernels_.swiglu(gate.row(row), up.row(row), dim, space);
      return space;
    });
  }
  ws_.times.other += watch_.restart();
  product(ffn.down, projected_, ws_.times.ffn);
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
  for_each_row(
      [&](int64_t row) { choose_experts(moe, logits.row_span(row), layer.expert_bias, choices_of(row)); });

  ws_.expert_rows.resize(layer.experts.size());
  ws_.expert_weights.resize(layer.experts.size());
  for (size_t e = 0; e < layer.experts.size(); ++e) {
    ws_.expert_rows[e].clear();
    ws_.expert_weights[e].clear();
  }
  for (int64_t row = 0; row < num_rows_; ++row) {
    for (const ExpertChoice& choice : choices_of(row)) {
      ws_.expert_rows[static_cast<size_t>(choice.expert)].push_back(static_cast<int32_t>(row));
      ws_.expert_weights[static_cast<size_t>(choice.expert)].push_back(choice.weight);
    }
  }
  ws_.times.other += watch_.restart();
}

void Model::Pass::run_expert(const FeedForward& expert, size_t index) {
  const std::vector<int32_t>& rows = ws_.expert_rows[index];
  if (rows.empty()) return;
  ws_.packed.pack(context_, normed_, rows, dtype_);
  const auto count = static_cast<int64_t>(rows.size());
  activated_product(expert, count, config_.moe.expert_ffn_dim);
  for_each_row(count, [&](int64_t i) {
    const float weight = ws_.expert_weights[index][static_cast<size_t>(i)];
    float* x = x_.row(rows[static_cast<size_t>(i)]);
    const float* y = projected_.row(i);
    for (int64_t d = 0; d < config_.hidden_dim; ++d) x[d] += weight * y[d];
  });
  ws_.times.other += watch_.restart();
}

void Model::Pass::pack_normed(const std::vector<float>& weight) {
  ws_.packed.pack_each(context_, num_rows_, config_.hidden_dim, dtype_, [&](int64_t row, float* space) {
    norm(x_.row(row), weight, space);
    return space;
  });
  ws_.times.norms += watch_.restart();
}

void Model::Pass::add_projected() {
  for_each_row([&](int64_t row) {
    kernels_.add_scaled(x_.row(row), projected_.row(row), config_.residual_scale, config_.hidden_dim);
  });
  ws_.times.other += watch_.restart();
}

void Model::Pass::pack(ConstMatrix<float> rows, double& seconds) {
  ws_.packed.pack(context_, rows, {}, dtype_);
  seconds += watch_.restart();
}

void Model::Pass::product(const Linear& linear, Matrix<float> out, double& seconds) {
  multiply(context_, ws_.packed, linear.weight.view(), linear.bias_or_null(), out);
  seconds += watch_.restart();
}

}  // namespace lacuna
