#include "model/cost.h"

namespace lacuna {

double flops_per_row(const ModelConfig& config) {
  const auto hidden = static_cast<double>(config.hidden_dim);
  double weights = hidden * static_cast<double>(2 * config.q_dim() + 2 * config.kv_dim());
  if (config.has_experts()) {
    weights += hidden * static_cast<double>(config.moe.num_experts +
                                            3 * config.moe.experts_per_token * config.moe.expert_ffn_dim);
  } else {
    weights += 3 * hidden * static_cast<double>(config.ffn_dim);
  }
  return 2 * static_cast<double>(config.num_layers) * weights;
}

double flops_per_cell(const ModelConfig& config) {
  return 4 * static_cast<double>(config.num_layers) * static_cast<double>(config.q_dim());
}

double flops_per_logits(const ModelConfig& config) {
  return 2 * static_cast<double>(config.hidden_dim) * static_cast<double>(config.vocab_size);
}

StepCost cost(const ModelConfig& config, const StepPlan& plan) {
  double pairs = 0;  // of a row and a cell it sees
  for (const RowGroup& group : plan.groups) {
    const auto rows = static_cast<double>(group.rows.size());
    for (const IndexRange& range : group.visible) pairs += rows * range.size();
    pairs += group.own_rows == OwnRows::kCausal ? rows * (rows + 1) / 2 : rows * rows;
  }
  double logit_rows = static_cast<double>(plan.logits.size());
  for (const LogitRow& logit : plan.logits) logit_rows += logit.unconditional_row >= 0 ? 1 : 0;
  return {plan.num_rows(), plan.num_rows() * flops_per_row(config) + pairs * flops_per_cell(config) +
                               logit_rows * flops_per_logits(config)};
}

}  // namespace lacuna
