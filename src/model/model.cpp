// Loads models and starts forward passes (pass.h).
#include "model/model.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "model/adapters.h"
#include "model/families.h"
#include "model/pass.h"
#include "model/read_config.h"
#include "model/soft_embedding.h"
#include "weights/weight_format.h"

namespace lacuna {

int64_t Workspace::bytes() const {
  int64_t floats = 0;
  for (const auto* buffer :
       {&residual, &q, &k, &v, &attended, &projected, &gate, &up, &head_rows, &logits, &normed,
        &router_logits, &dense, &expert_sum, &modulation, &before_layer, &layer_rows})
    floats += buffer->size();
  return floats * static_cast<int64_t>(sizeof(float)) + packed.bytes();
}

std::span<const float> Workspace::layer_input(int64_t row, int64_t hidden_dim) const {
  return {residual.data() + row * output_stride(hidden_dim), static_cast<size_t>(hidden_dim)};
}

int64_t predicted_workspace_bytes(const ModelConfig& config, const WeightFormats& formats,
                                  const KernelTable& kernels, int64_t rows) {
  const MoeConfig& moe = config.moe;
  int64_t widest = config.num_expert_layers() < config.num_layers ? config.ffn_dim : 0;
  int64_t q_dim = 0;
  int64_t kv_dim = 0;
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    q_dim = std::max(q_dim, config.q_dim_of(layer));
    kv_dim = std::max(kv_dim, config.kv_dim_of(layer));
  }
  if (moe.parallel_dense) widest = config.ffn_dim;
  int64_t row = 0;
  if (config.canvas) widest = std::max(widest, config.canvas->conditioning_dim);
  if (moe.parallel_dense) row += 2 * output_stride(config.hidden_dim);
  if (config.convolution) {
    q_dim = std::max(q_dim, config.hidden_dim);
    kv_dim = std::max(kv_dim, config.hidden_dim);
  }
  if (config.knows_noise_levels()) row += output_stride(config.hidden_dim);
  row += 2 * output_stride(config.hidden_dim) + 2 * output_stride(q_dim) + 2 * output_stride(kv_dim);
  if (config.has_experts()) {
    widest = std::max({widest, moe.expert_ffn_dim, moe.shared_ffn_dim});
    row += output_stride(config.hidden_dim) + output_stride(moe.num_experts);
  }
  row += (config.activation == Activation::kSquaredRelu ? 1 : 2) * output_stride(widest);
  const int64_t logits =
      std::min(rows, head_chunk_rows(config.vocab_size)) * output_stride(config.vocab_size);

  const int64_t deepest = std::max({config.hidden_dim, q_dim, widest});
  int64_t packed = PackedRows::bytes_for(kernels, rows, deepest, formats.dtype);
  const WeightFormat layers = formats.layers.value_or(formats.dtype);
  if (formats.dtype == DType::kBF16 &&
      kernels.integer_activations(layers.quantization, formats.int8_activations) != nullptr)
    packed *= 2;
  return (rows * row + logits) * static_cast<int64_t>(sizeof(float)) + packed;
}

namespace {

/// Throws InputError if a format has no CPU kernels, or does not fit the model.
void expect_cpu_formats(const ModelConfig& config, const WeightFormats& formats) {
  if (config.convolution && formats.kv_int8) {
    throw InputError(
        "cells of {}'s short convolutions hold their inputs, which are not kept as int8; expected "
        "--kv-cache auto",
        config.architecture);
  }
  for (const auto& format : {formats.layers, formats.embedding}) {
    if (!format || format->is_for_cpu()) continue;
    throw InputError("weights are {}, for which CUDA devices alone have kernels; expected {}",
                     describe(*format), fmt::join(cpu_format_names(), ", "));
  }
}

}  // namespace

Model::Model(ModelConfig config, const WeightFormats& formats, Parameters parameters,
             std::shared_ptr<Communicator> ranks, ShardBy by)
    : config_(std::move(config)),
      dtype_(formats.dtype),
      kv_int8_(formats.kv_int8),
      int8_activations_(formats.int8_activations),
      ranks_(std::move(ranks)),
      part_(ranks_ ? ModelPart{ranks_->rank(), ranks_->size(), by} : ModelPart()),
      parameters_(std::move(parameters)),
      rope_frequencies_(lacuna::rope_frequencies(
          config_.rope, config_.rotary_dim > 0 ? config_.rotary_dim : config_.head_dim)) {
  // A rank may wait while another computes all of its layers.
  if (part_.cuts(ShardBy::kLayers)) ranks_->set_timeout_factor(part_.of(0).layers(config_.num_layers).size());
  if (config_.knows_noise_levels()) {
    const int64_t noise_dim = config_.canvas->ancestral->noise_dim;
    ones_.assign(static_cast<size_t>(std::max(config_.hidden_dim, noise_dim)), 1.0F);
  }
  if (!config_.sliding) return;
  sliding_frequencies_ = lacuna::rope_frequencies(config_.sliding->rope, config_.sliding->head_dim);
  const int64_t widest = std::max({config_.hidden_dim, config_.head_dim, config_.sliding->head_dim});
  ones_.assign(static_cast<size_t>(widest), 1.0F);
}

float Model::embedding_scale() const {
  const bool rounds = config_.rounds_embedding_scale && dtype_ == DType::kBF16;
  return rounds ? static_cast<float>(bf16(config_.embedding_scale)) : config_.embedding_scale;
}

KvShape kv_shape(const ModelConfig& config, DType dtype, bool is_int8, const ModelPart& part) {
  const auto heads = [&](int64_t count) { return part.kv_heads(count).size(); };
  const ModelPart::Range layers = part.layers(config.num_layers);
  KvShape shape{layers.size(), heads(config.num_kv_heads),         config.head_dim,
                dtype,         config.kv_sink || config.zero_sink, is_int8};
  const bool differ = config.sliding || config.convolution;
  for (int64_t layer = layers.begin; differ && layer < layers.end; ++layer)
    shape.heads_by_layer.push_back({heads(config.num_kv_heads_of(layer)), config.head_dim_of(layer)});
  if (config.canvas) shape.soft_embedding_dim = config.hidden_dim;
  return shape;
}

std::shared_ptr<const Model> Model::load(const std::filesystem::path& folder, const WeightFormats& formats,
                                         ThreadPool& threads, const LoadProgress& progress) {
  return load(folder, read_config(folder), formats, threads, progress);
}

std::shared_ptr<const Model> Model::load(const std::filesystem::path& folder, const ModelConfig& config,
                                         const WeightFormats& formats, ThreadPool& threads,
                                         const LoadProgress& progress) {
  expect_cpu_formats(config, formats);
  const std::unique_ptr<WeightSource> weights = open_weights(folder, config);
  return std::make_shared<const Model>(config, formats,
                                       load_parameters(config, *weights, formats, threads, progress));
}

std::shared_ptr<const Model> Model::random(const ModelConfig& config, uint64_t seed,
                                           const WeightFormats& formats, ThreadPool& threads,
                                           const LoadProgress& progress) {
  expect_cpu_formats(config, formats);
  return std::make_shared<const Model>(config, formats,
                                       random_parameters(config, seed, formats, threads, progress));
}

std::shared_ptr<const Model> Model::load_part(const std::filesystem::path& folder, const ModelConfig& config,
                                              uint64_t seed, const WeightFormats& formats,
                                              ThreadPool& threads, const LoadProgress& progress,
                                              std::shared_ptr<Communicator> ranks, ShardBy by) {
  expect_cpu_formats(config, formats);
  if (config.convolution) {
    throw InputError("{} has short convolutions, which ranks cannot divide; expected no --shard",
                     config.architecture);
  }
  const ModelPart part{ranks->rank(), ranks->size(), by};
  if (part.cuts(ShardBy::kLayers) && config.num_layers < part.size) {
    throw InputError("--shard layers: the model has {} layers and there are {} ranks; expected at most {}",
                     config.num_layers, part.size, config.num_layers);
  }
  Parameters parameters = folder.empty() ? random_parameters(config, seed, formats, threads, progress, part)
                                         : load_parameters(config, *open_weights(folder, config), formats,
                                                           threads, progress, part);
  return std::make_shared<const Model>(config, formats, std::move(parameters), std::move(ranks), by);
}

ModelBytes Model::bytes_of_passes() const {
  constexpr int64_t kCells = 1024;
  const int64_t ends = parameters_.embedding.bytes() + parameters_.own_head.bytes();
  return {static_cast<double>(parameters_.bytes() - ends), static_cast<double>(parameters_.head().bytes()),
          static_cast<double>(KvCache::bytes_for(kv_shape(), kCells)) / kCells};
}

KvCache Model::make_cache(int64_t num_cells, std::shared_ptr<int64_t> count) const {
  KvCache cache(kv_shape(), num_cells, std::move(count));
  if (cache.sink_cell() < 0) return cache;
  const std::vector<float> zeros(config_.zero_sink ? static_cast<size_t>(config_.kv_dim()) : 0);
  const int64_t first = part_.kv_heads(config_.num_kv_heads).begin * config_.head_dim;
  const ModelPart::Range layers = part_.layers(config_.num_layers);
  for (int64_t layer = layers.begin; layer < layers.end; ++layer) {
    const LayerParameters& parameters = parameters_.layers[static_cast<size_t>(layer)];
    const bool is_zero = config_.zero_sink;
    cache.write(layer - layers.begin, cache.sink_cell(),
                is_zero ? zeros.data() : parameters.k_sink.data() + first,
                is_zero ? zeros.data() : parameters.v_sink.data() + first);
  }
  return cache;
}

PassResult Model::forward(const KernelContext& context, const StepPlan& plan,
                          std::span<KvCache* const> caches, Workspace& workspace) const {
  workspace.samples.resize(plan.logits.size());
  Pass pass(*this, context, plan, caches, workspace);
  pass.run_layers();
  pass.find_rollouts(workspace.rollout);
  if (pass.evicts()) {
    pass.sample_staying(plan.logits, workspace.samples);
  } else {
    pass.sample_shared(plan.logits, workspace.samples);
    pass.keep_logits(plan.logits);
  }
  PassResult result{workspace.samples};
  if (plan.measures_kv_drift) result.kv_drift = workspace.kv_drift;
  result.rollout = workspace.rollout;
  return result;
}

FollowUpResult Model::follow_up(const KernelContext& context, const StepPlan& plan, const FollowUp& wanted,
                                std::span<OutputCache* const> outputs, Workspace& workspace,
                                bool remembers) const {
  expects(wanted.probes.empty() || !outputs.empty(), "follow_up: probes need remembered outputs");
  workspace.further_samples.resize(wanted.logits.size());
  workspace.drifts.resize(wanted.probes.size());
  workspace.classes.resize(count_classes(wanted.classes));
  Pass pass(*this, context, plan, {}, workspace);
  pass.read_classes(wanted.classes, workspace.classes);  // first: may reuse the pass's logits
  pass.sample_all(wanted.logits, workspace.further_samples);
  pass.compare(wanted.probes, outputs, workspace.drifts);
  if (remembers && !outputs.empty()) pass.remember(outputs);
  return {workspace.further_samples, workspace.drifts, workspace.classes};
}

void Model::forward_logits(const KernelContext& context, const StepPlan& plan,
                           std::span<KvCache* const> caches, Workspace& workspace, Matrix<float> out) const {
  expects(out.rows == static_cast<int64_t>(plan.logits.size()) && out.cols == config_.vocab_size,
          "forward_logits: out is logits by vocabulary");
  Pass pass(*this, context, plan, caches, workspace);
  pass.run_layers();
  pass.for_each_logits(plan.logits, [&](size_t first, Matrix<float> logits) {
    for (int64_t i = 0; i < logits.rows; ++i) {
      std::copy_n(logits.row(i), config_.vocab_size, out.row(static_cast<int64_t>(first) + i));
    }
  });
}

void Model::read_logits(const KernelContext& context, const StepPlan& plan, std::span<const LogitRow> wanted,
                        Workspace& workspace, Matrix<float> out) const {
  expects(out.rows == static_cast<int64_t>(wanted.size()) && out.cols == config_.vocab_size,
          "read_logits: out is rows by vocabulary");
  Pass(*this, context, plan, {}, workspace).for_each_logits(wanted, [&](size_t first, Matrix<float> logits) {
    for (int64_t i = 0; i < logits.rows; ++i) {
      std::copy_n(logits.row(i), config_.vocab_size, out.row(static_cast<int64_t>(first) + i));
    }
  });
}

void Model::keep_soft_embeddings(const KernelContext& context, const KvCache& cache,
                                 std::span<const int32_t> cells, ConstMatrix<float> distributions) const {
  expects(distributions.rows == std::ssize(cells) && distributions.cols == config_.vocab_size,
          "keep_soft_embeddings: cells by vocabulary");
  if (!part_.embeds()) return;  // the rank does not read soft embeddings
  const Matrix<float> soft_embeddings = cache.soft_embeddings();
  std::vector<float*> kept;
  for (const int32_t cell : cells) kept.push_back(soft_embeddings.row(cell));
  const std::vector<float> factors(cells.size(), embedding_scale());
  mean_embeddings(context, parameters_.embedding, distributions, factors, kept);
}

void Model::compare_outputs(const KernelContext& context, ConstMatrix<float> now, ConstMatrix<float> before,
                            Workspace& workspace, std::span<Drift> drifts) const {
  expects(now.rows == before.rows && static_cast<int64_t>(drifts.size()) == now.rows,
          "compare_outputs: as many rows now as before");
  const StepPlan nothing;
  Pass(*this, context, nothing, {}, workspace).compare_rows(now, before, drifts);
}

}  // namespace lacuna
