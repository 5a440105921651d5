#include "backend/shard/machine_plan.h"

#include <algorithm>

#include "cache/kv_cache.h"
#include "model/cost.h"
#include "model/model.h"

namespace lacuna {
namespace {

class Planner {
 public:
  Planner(const ModelConfig& config, const WeightFormats& formats, const WeightSource* stored,
          const MachineSpeeds& speeds, const PlannedPass& pass)
      : config_(config),
        formats_(formats),
        stored_(stored),
        speeds_(speeds),
        pass_(pass),
        machines_(pass.machines) {
    const auto rows = static_cast<double>(pass.rows);
    layer_flops_ = rows * (flops_per_row(config) + static_cast<double>(pass.cells) * flops_per_cell(config));
    head_flops_ = rows * flops_per_logits(config);
    const WeightFormat ends = formats.embedding.value_or(formats.dtype);
    head_bytes_ = static_cast<double>(packed_bytes(ends, config.vocab_size, config.hidden_dim));
    ends_bytes_ = (config.tied_embeddings ? 1 : 2) * head_bytes_;
    layer_bytes_ = static_cast<double>(predicted_bytes(config, formats, stored)) - ends_bytes_;
  }

  std::vector<MachinePlan> plan() const { return {one(), replicas(), rows(), outputs(), layers()}; }

 private:
  double seconds(double flops, double bytes) const {
    return std::max(flops / speeds_.flops, bytes / speeds_.bandwidth);
  }
  double head_seconds(double share) const { return seconds(head_flops_ * share, head_bytes_); }
  double share_that_others_have() const { return (machines_ - 1) / machines_; }
  int64_t kv_bytes(const ModelPart& part) const {
    return KvCache::bytes_for(kv_shape(config_, formats_.dtype, formats_.kv_int8, part), pass_.cells);
  }
  void exchange(MachinePlan& plan, double bytes, int64_t exchanges) const {
    plan.received_bytes = bytes;
    plan.exchanges = exchanges;
    plan.wire_seconds = bytes / speeds_.link + static_cast<double>(exchanges) * speeds_.latency;
  }

  MachinePlan one() const {
    MachinePlan plan{.way = "one"};
    plan.weight_bytes = static_cast<int64_t>(layer_bytes_ + ends_bytes_);
    plan.kv_bytes = kv_bytes({});
    plan.compute_seconds = seconds(layer_flops_, layer_bytes_) + head_seconds(1);
    plan.passes_per_second = 1 / plan.seconds();
    return plan;
  }

  MachinePlan replicas() const {
    MachinePlan plan = one();
    plan.way = "replicas";
    plan.passes_per_second *= machines_;
    return plan;
  }

  /// Memory of the first machine, which keeps the largest part of the model.
  MachinePlan sharded(std::string_view way, ShardBy by) const {
    MachinePlan plan{.way = way, .shard = by};
    const ModelPart first{0, pass_.machines, by};
    plan.weight_bytes = predicted_bytes(config_, formats_, stored_, first);
    plan.kv_bytes = kv_bytes(first);
    return plan;
  }

  /// Every machine has all weights and computes its rows; K/V are gathered before attention, and the residual
  /// stream before the head.
  MachinePlan rows() const {
    MachinePlan plan = sharded("rows", ShardBy::kRows);
    plan.compute_seconds = seconds(layer_flops_ / machines_, layer_bytes_) + head_seconds(1 / machines_);
    const DType kv_dtype = formats_.kv_int8 ? DType::kF32 : formats_.dtype;
    double bytes_of_row = residual_bytes_of_row();
    for (int64_t layer = 0; layer < config_.num_layers; ++layer)
      bytes_of_row +=
          2 * static_cast<double>(config_.kv_dim_of(layer)) * static_cast<double>(size_of(kv_dtype));
    exchange(plan, static_cast<double>(pass_.rows) * bytes_of_row * share_that_others_have(),
             config_.num_layers + 1);
    plan.passes_per_second = 1 / plan.seconds();
    return plan;
  }

  MachinePlan outputs() const {
    MachinePlan plan = sharded("outputs", ShardBy::kOutputs);
    plan.compute_seconds =
        seconds(layer_flops_ / machines_, layer_bytes_ / machines_) + head_seconds(1 / machines_);
    const int64_t norms = config_.qk_norm_full ? 2 : 0;
    exchange(plan,
             static_cast<double>(pass_.rows) * gathered_bytes_per_row(config_, formats_.dtype) *
                 share_that_others_have(),
             config_.num_layers * (4 + norms));
    plan.passes_per_second = 1 / plan.seconds();
    return plan;
  }

  /// Pipeline parallelism: each machine computes whole layers and sends the residual stream to the next, the
  /// last to the first; these two share the head. A single request is as slow as on one machine; with many
  /// requests, four micro-batches per machine fill the pipeline.
  MachinePlan layers() const {
    const bool is_possible = config_.num_layers >= pass_.machines;
    MachinePlan plan = is_possible ? sharded("layers", ShardBy::kLayers) : one();
    plan.way = "layers";
    plan.shard = ShardBy::kLayers;
    plan.is_possible = is_possible;
    plan.compute_seconds = seconds(layer_flops_, layer_bytes_) + head_seconds(0.5);
    const double residual = static_cast<double>(pass_.rows) * residual_bytes_of_row();
    const double hop = residual / speeds_.link + speeds_.latency;
    plan.received_bytes = residual;
    plan.exchanges = pass_.machines;
    plan.wire_seconds = machines_ * hop;
    const double stage = seconds(layer_flops_, layer_bytes_) / machines_ + hop;
    const double steps = 1 + (machines_ - 1) / (4 * machines_);  // with filling and draining the pipeline
    plan.passes_per_second = 1 / (steps * stage + head_seconds(0.5));
    return plan;
  }

  double residual_bytes_of_row() const { return static_cast<double>(config_.hidden_dim) * sizeof(float); }

  const ModelConfig& config_;
  const WeightFormats& formats_;
  const WeightSource* stored_;
  const MachineSpeeds& speeds_;
  const PlannedPass& pass_;
  double machines_;
  double layer_flops_ = 0;
  double head_flops_ = 0;
  double layer_bytes_ = 0;
  double head_bytes_ = 0;
  double ends_bytes_ = 0;
};

}  // namespace

const MachinePlan* fastest_that_fits(const std::vector<MachinePlan>& plans, int64_t memory) {
  const MachinePlan* fastest = nullptr;
  for (const MachinePlan& plan : plans) {
    if (!plan.shard || !plan.is_possible || plan.weight_bytes + plan.kv_bytes > memory) continue;
    if (fastest == nullptr || plan.seconds() < fastest->seconds()) fastest = &plan;
  }
  return fastest;
}

double gathered_bytes_per_row(const ModelConfig& config, DType dtype) {
  const auto rounded = static_cast<int64_t>(size_of(dtype));
  constexpr int64_t kSum = sizeof(float);
  const MoeConfig& moe = config.moe;
  int64_t bytes = 0;
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    bytes += rounded * config.q_dim_of(layer) + kSum * config.hidden_dim;
    if (config.qk_norm_full) bytes += kSum * (config.q_dim_of(layer) + config.kv_dim_of(layer));
    const bool has_experts = config.layer_has_experts(layer);
    if (has_experts) bytes += rounded * moe.experts_per_token * moe.expert_ffn_dim + kSum * config.hidden_dim;
    if (has_experts && moe.shared_ffn_dim > 0)
      bytes += rounded * moe.shared_ffn_dim + kSum * config.hidden_dim;
    if (!has_experts || moe.parallel_dense) bytes += rounded * config.ffn_dim + kSum * config.hidden_dim;
  }
  return static_cast<double>(bytes);
}

std::vector<MachinePlan> plan_machines(const ModelConfig& config, const WeightFormats& formats,
                                       const WeightSource* stored, const MachineSpeeds& speeds,
                                       const PlannedPass& pass) {
  return Planner(config, formats, stored, speeds, pass).plan();
}

}  // namespace lacuna
