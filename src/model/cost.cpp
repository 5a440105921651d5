#include "model/cost.h"

#include <algorithm>
#include <cmath>

namespace lacuna {

namespace {

/// Weights of a layer's matrices with `num_experts` of its routed experts.
double weights_of_layer(const ModelConfig& config, int64_t layer, double num_experts) {
  const auto hidden = static_cast<double>(config.hidden_dim);
  const int64_t kv_products = config.has_value_projection(layer) ? 2 : 1;
  const int64_t attention_dim = config.convolves(layer)
                                    ? 4 * config.hidden_dim
                                    : 2 * config.q_dim_of(layer) + kv_products * config.kv_dim_of(layer);
  const double attention = hidden * static_cast<double>(attention_dim);
  if (!config.layer_has_experts(layer)) {
    const int dense_products = config.activation == Activation::kSquaredRelu ? 2 : 3;
    return attention + dense_products * hidden * static_cast<double>(config.ffn_dim);
  }
  const MoeConfig& moe = config.moe;
  int64_t width = moe.shared_ffn_dim;
  if (moe.parallel_dense) width += config.ffn_dim;
  return attention + hidden * static_cast<double>(moe.num_experts + 3 * width) +
         3 * hidden * num_experts * static_cast<double>(moe.expert_ffn_dim);
}

/// Weights that one row is multiplied with: of experts, only the chosen ones.
double weights_of_row(const ModelConfig& config, int64_t layer) {
  return weights_of_layer(config, layer, static_cast<double>(config.moe.experts_per_token));
}

/// Expected number of a layer's experts that `rows` rows choose together, if a row chooses each expert with
/// equal probability. A window's rows choose from its pool.
double experts_chosen(const MoeConfig& moe, double rows) {
  const auto count = static_cast<double>(moe.num_experts);
  const double others = 1 - static_cast<double>(moe.experts_per_token) / count;
  if (moe.window == 0) return count * (1 - std::pow(others, rows));
  const auto window = static_cast<double>(moe.window);
  const double of_window = std::min(static_cast<double>(moe.experts_per_window) / count,
                                    1 - std::pow(others, std::min(rows, window)));
  return count * (1 - std::pow(1 - of_window, std::ceil(rows / window)));
}

}  // namespace

double flops_per_row(const ModelConfig& config) {
  double weights = 0;
  for (int64_t layer = 0; layer < config.num_layers; ++layer) weights += weights_of_row(config, layer);
  return 2 * weights;
}

double share_of_weights_read(const ModelConfig& config, double rows) {
  if (!config.has_experts()) return 1;
  const double chosen = experts_chosen(config.moe, rows);
  double read = 0, all = 0;
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    read += weights_of_layer(config, layer, chosen);
    all += weights_of_layer(config, layer, static_cast<double>(config.moe.num_experts));
  }
  return read / all;
}

double flops_per_cell(const ModelConfig& config) {
  double dims = 0;
  for (int64_t layer = 0; layer < config.num_layers; ++layer)
    dims += static_cast<double>(config.q_dim_of(layer));
  return 4 * dims;
}

double flops_per_logits(const ModelConfig& config) {
  return 2 * static_cast<double>(config.hidden_dim) * static_cast<double>(config.vocab_size);
}

PassWork work_of(const StepPlan& plan) {
  PassWork work;
  work.rows = plan.num_rows();
  for (const RowGroup& group : plan.groups) {
    const auto rows = static_cast<double>(group.rows.size());
    double visible = 0;
    for (const IndexRange& range : group.visible) visible += range.size();
    double own_pairs = 0;
    if (group.own_rows == OwnRows::kBidirectional) own_pairs = rows * rows;
    if (group.own_rows == OwnRows::kCausal) own_pairs = rows * (rows + 1) / 2;
    work.pairs += rows * visible + own_pairs;
    if (group.only_kv) {
      work.only_kv_rows += group.rows.size();
      work.only_kv_pairs += rows * visible + own_pairs;
    }
    work.cells += visible + (group.own_rows == OwnRows::kNone ? 0 : rows);
    if (group.reuse.skips()) {
      const double reused = std::max(0.0, rows - group.reuse.num_computed);
      work.reused_rows += reused;
      work.reused_pairs += reused * visible;
    }
    const SparseAttention& sparse = group.sparse;
    if (sparse.hides()) {
      const double unchosen = sparse.num_candidates() - sparse.num_chosen();
      const double choosing =
          sparse.is_confined() ? rows : std::min(rows, static_cast<double>(sparse.active_rows));
      work.unchosen_pairs += rows * sparse.num_candidates() - choosing * sparse.num_chosen();
      work.unchosen_cells += unchosen;
      if (unchosen > 0) work.sparse_rows += group.rows.size();
      work.dense_layers = sparse.dense_layers;
    }
  }
  work.logit_rows = logit_rows_of({.logits = plan.logits});
  return work;
}

void leave_out_evicted(const StepPlan& plan, std::span<const RowStatistics> samples, PassWork& work) {
  for (size_t i = 0; i < samples.size(); ++i) {
    if (samples[i].token >= 0) continue;
    const int32_t row = plan.logits[i].row;
    const auto group = std::ranges::find_if(
        plan.groups, [&](const RowGroup& each) { return row >= each.rows.begin && row < each.rows.end; });
    work.evicted_rows += 1;
    for (const IndexRange& range : group->visible) work.reused_pairs += range.size();
    work.logit_rows -= 1;
  }
}

double logit_rows_of(const FollowUp& wanted) {
  const auto with_guide = [](int32_t unconditional_row) { return unconditional_row >= 0 ? 2.0 : 1.0; };
  double rows = 0;
  for (const LogitRow& logit : wanted.logits) rows += with_guide(logit.unconditional_row);
  for (const ClassRow& row : wanted.classes) rows += with_guide(row.logit.unconditional_row);
  for (const DriftProbe& probe : wanted.probes) rows += 2 * with_guide(probe.unconditional_row);
  return rows;
}

StepCost cost(const ModelConfig& config, const ModelBytes& bytes, const PassWork& work) {
  const auto rows = static_cast<double>(work.rows);
  StepCost cost;
  cost.rows = work.rows;
  cost.sparse_rows = work.sparse_rows;
  cost.layer_flops = rows * flops_per_row(config) + work.pairs * flops_per_cell(config);
  const auto layers = static_cast<double>(config.num_layers);
  const int64_t last = config.num_layers - 1;
  const int64_t kv_products = config.has_value_projection(last) ? 2 : 1;
  const double kv_flops = 2 * static_cast<double>(kv_products * config.hidden_dim * config.kv_dim_of(last));
  const double last_layer_flops = 2 * weights_of_row(config, last);
  cost.layer_flops -= static_cast<double>(work.only_kv_rows) * (last_layer_flops - kv_flops);
  cost.layer_flops -= work.only_kv_pairs * flops_per_cell(config) / layers;
  const double later_share = (layers - 1) / layers;
  cost.rows -= std::llround((work.reused_rows + work.evicted_rows) * later_share);
  const auto qkv_flops =
      2 *
      static_cast<double>(config.hidden_dim * (config.q_dim_of(last) + kv_products * config.kv_dim_of(last)));
  cost.layer_flops -= work.evicted_rows * (flops_per_row(config) * later_share - qkv_flops);
  const auto value_flops = 2 * static_cast<double>(config.hidden_dim * config.kv_dim_of(last));
  cost.layer_flops -= work.reused_rows * (flops_per_row(config) * later_share - value_flops * (layers - 1));
  cost.layer_flops -= work.reused_pairs * flops_per_cell(config) * later_share;
  const double sparse_share = std::max(0.0, layers - work.dense_layers) / layers;
  cost.layer_flops -= work.unchosen_pairs * flops_per_cell(config) * sparse_share;
  cost.head_flops = work.logit_rows * flops_per_logits(config);
  const double cells = work.cells + rows - work.unchosen_cells * sparse_share;
  cost.bytes = bytes.layers * share_of_weights_read(config, rows) + bytes.cell * cells +
               (work.logit_rows > 0 ? bytes.head : 0);
  return cost;
}

}  // namespace lacuna
