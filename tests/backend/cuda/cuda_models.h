// Tiny models on the CPU and, with the same random weights, on the simulator of CUDA threads.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/cuda_model.h"
#include "model/parameters.h"
#include "model/tiny_models.h"
#include "weights/weight_format.h"

namespace lacuna::cuda {

inline constexpr uint64_t kWeightSeed = 4;

/// One of each family whose passes have kernels, named by `architecture`. Kernels of attention are built for
/// heads of 16 dimensions and more; other widths stay what they are in tiny_configs(), no multiples of a
/// tile.
inline std::vector<ModelConfig> supported_configs() {
  ModelConfig fast_dllm = tiny_block_config(8);
  fast_dllm.family = "fast-dllm";
  fast_dllm.qkv_bias = true;
  fast_dllm.sub_block_length = 4;
  fast_dllm.num_layers = 2;
  ModelConfig sdar = tiny_block_config(4);
  sdar.num_layers = 2;
  std::vector<ModelConfig> configs = tiny_configs();
  for (const ModelConfig& config : {tiny_refusion_config(), sdar, fast_dllm, tiny_gidd_config(1000),
                                    tiny_sumi_config(), tiny_nemotron_config(), tiny_canvas_config()})
    configs.push_back(config);
  for (ModelConfig& config : configs) config.architecture = config.family;
  configs.push_back(tiny_editing_config());
  configs.back().architecture = "llada2.2";
  configs.push_back(tiny_nemotron_causal_config());
  configs.back().architecture = "nemotron-causal";
  for (ModelConfig& config : configs) {
    if (config.rotary_dim == 0 || config.rotary_dim == config.head_dim) config.rotary_dim = 32;
    config.head_dim = 32;
    if (config.sliding) config.sliding->head_dim = 16;
  }
  return configs;
}

inline ModelConfig config_of(std::string_view name) {
  for (const ModelConfig& config : supported_configs()) {
    if (config.architecture == name) return config;
  }
  throw std::invalid_argument("supported_configs() has no " + std::string(name));
}

inline std::shared_ptr<const CpuDevice> one_thread() {
  static const auto device = std::make_shared<const CpuDevice>(1);
  return device;
}

inline std::shared_ptr<const BackendModel> cpu_model(const ModelConfig& config, DType dtype = DType::kBF16) {
  return load_on_cpu(one_thread(), {}, config, dtype, kWeightSeed, {});
}

inline WeightFormats bf16_with_layers(std::string_view name) {
  WeightFormats formats = DType::kBF16;
  formats.layers = weight_format(name);
  return formats;
}

/// Quantized weights as the f32 numbers that they stand for.
inline void expand(PackedMatrix& matrix) {
  if (!matrix.format().is_quantized()) return;
  const PackedMatrix quantized = std::move(matrix);
  const PanelView view = quantized.view();
  matrix = PackedMatrix(one_thread()->threads(), DType::kF32, view.outputs, view.inputs,
                        [&](int64_t n, float* row) { quantized.read_row(n, row); });
}

/// A model with the weights of cuda_model() in formats that the CPU has no kernels for: in f32 with expanded
/// weights, which are exact.
inline std::shared_ptr<const BackendModel> expanded_cpu_model(const ModelConfig& config,
                                                              WeightFormats formats) {
  formats.dtype = DType::kF32;
  ThreadPool& threads = one_thread()->threads();
  Parameters parameters = random_parameters(config, kWeightSeed, formats, threads, {});
  const auto expand_all = [](FeedForward& ffn) {
    for (Linear* linear : {&ffn.gate, &ffn.up, &ffn.down}) expand(linear->weight);
  };
  for (LayerParameters& layer : parameters.layers) {
    for (Linear* linear : {&layer.q, &layer.k, &layer.v, &layer.o}) expand(linear->weight);
    expand_all(layer.ffn);
    expand_all(layer.shared_expert);
    for (FeedForward& expert : layer.experts) expand_all(expert);
  }
  if (parameters.conditioning) expand_all(parameters.conditioning->ffn);
  for (PackedMatrix* matrix : {&parameters.embedding, &parameters.own_head}) expand(*matrix);
  const auto model = std::make_shared<const Model>(config, DType::kF32, std::move(parameters));
  return on_cpu(model, one_thread());
}

/// With pages for a few canvases: memory of the simulator begins as NaN, which takes time.
inline std::shared_ptr<const BackendModel> cuda_model(const ModelConfig& config,
                                                      const WeightFormats& formats = DType::kBF16,
                                                      int64_t kv_bytes = int64_t{4} << 20) {
  return load_on_cuda(open_cuda_device(0), one_thread(), {}, config, formats, kWeightSeed, {}, {kv_bytes});
}

/// A model, a pool and sequences for passes of one test.
class Passes {
 public:
  explicit Passes(std::shared_ptr<const BackendModel> model, int64_t limit = KvPool::kNoLimit)
      : model_(std::move(model)), pool_(model_->make_pool(limit)) {}

  KvSequence& add_sequence(int64_t cells = 256, bool remembers_outputs = false) {
    sequences_.push_back(pool_->make_sequence({cells, remembers_outputs}));
    return *sequences_.back();
  }
  std::unique_ptr<PassTicket> submit(const StepPlan& plan) {
    std::vector<KvSequence*> pointers;
    for (const auto& sequence : sequences_) pointers.push_back(sequence.get());
    return model_->submit(plan, pointers);
  }
  std::vector<float> logits(const StepPlan& plan) {
    const std::unique_ptr<PassTicket> ticket = submit(plan);
    ticket->wait();
    const int64_t vocab = model_->config().vocab_size;
    std::vector<float> logits(plan.logits.size() * static_cast<size_t>(vocab));
    ticket->read_logits(plan.logits, {logits.data(), std::ssize(plan.logits), vocab});
    return logits;
  }
  std::vector<RowStatistics> samples(const StepPlan& plan) {
    const std::unique_ptr<PassTicket> ticket = submit(plan);
    const PassResult& result = ticket->wait();
    kv_drift_.assign(result.kv_drift.begin(), result.kv_drift.end());
    return {result.samples.begin(), result.samples.end()};
  }
  /// K/V drift of the pass of the last samples().
  const std::vector<float>& kv_drift() const { return kv_drift_; }
  KvPool& pool() { return *pool_; }
  const BackendModel& model() const { return *model_; }

 private:
  std::shared_ptr<const BackendModel> model_;
  std::unique_ptr<KvPool> pool_;
  std::vector<std::unique_ptr<KvSequence>> sequences_;
  std::vector<float> kv_drift_;
};

}  // namespace lacuna::cuda
