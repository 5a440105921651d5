#include "model/parameters.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <set>

#include "base/rng.h"
#include "model/families.h"
#include "model/gguf_model.h"
#include "weights/panel_tensors.h"

namespace lacuna {
namespace {

/// Rows of a module's weight and elements of its bias: all, or a range if several projections are fused in
/// one matrix.
struct ModuleRows {
  std::string module;
  int64_t first = 0;
  int64_t count = 0;
  int64_t total = 0;  ///< rows of the module
};

enum class Role : uint8_t { kEmbedding, kHead, kInward, kOutward, kNorm, kBias };

int64_t count_of(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

float product_scale(ProductScale scale, int64_t inputs, int64_t outputs) {
  if (scale == ProductScale::kOne) return 1;
  return 1 / std::sqrt(static_cast<float>(scale == ProductScale::kByInputs ? inputs : outputs));
}

/// Builds Parameters from any source of weights; the only code that lists a model's tensors. `Source`
/// supplies
///   contains(tensor) -> bool
///   values(name, shape, role) -> std::vector<float>
///   matrix(module rows, inputs, role, format or none) -> PackedMatrix of the rows
template <typename Source>
class Builder {
 public:
  Builder(const ModelConfig& config, Source& source, const WeightFormats& formats,
          const LoadProgress& progress, const ModelPart& part, const LayerSink& take_layer = {})
      : config_(config),
        part_(part),
        names_(config.gguf_names ? gguf_tensor_names(config.family) : family_entry(config.family).tensors),
        source_(source),
        formats_(formats),
        progress_(progress),
        take_layer_(take_layer),
        total_(count_parameters(config)) {}

  Parameters build() {
    const int64_t vocab = config_.vocab_size;
    const int64_t hidden = config_.hidden_dim;
    Parameters parameters;
    if (keeps_embedding()) {
      parameters.embedding = matrix(all_rows(std::string(names_.embedding), vocab), hidden, Role::kEmbedding,
                                    formats_.embedding);
    }
    parameters.layers.resize(static_cast<size_t>(config_.num_layers));
    const ModelPart::Range own_layers = part_.layers(config_.num_layers);
    for (int64_t layer = own_layers.begin; layer < own_layers.end; ++layer) {
      LayerParameters built = build_layer(layer);
      if (take_layer_) {
        take_layer_(layer, std::move(built));
      } else {
        parameters.layers[static_cast<size_t>(layer)] = std::move(built);
      }
    }
    parameters.final_norm = vector(std::string(names_.final_norm), hidden, Role::kNorm);
    if (!config_.tied_embeddings && part_.samples()) {
      parameters.own_head =
          matrix(all_rows(std::string(names_.head), vocab), hidden, Role::kHead, formats_.embedding);
    }
    if (config_.canvas && part_.embeds()) {
      parameters.conditioning =
          Conditioning{vector(std::string(names_.conditioning_norm), hidden, Role::kNorm), conditioning()};
    }
    if (config_.knows_noise_levels()) parameters.noise = noise_embedding();
    if (done_ < total_) report(total_ - done_);  // matrices of other ranks
    return parameters;
  }

 private:
  bool keeps_embedding() const {
    return part_.embeds() || (part_.samples() && (config_.tied_embeddings || config_.canvas));
  }

  static ModuleRows all_rows(const std::string& module, int64_t count) { return {module, 0, count, count}; }

  /// The matrices of self-conditioning.
  FeedForward conditioning() {
    const int64_t dim = config_.canvas->conditioning_dim;
    const std::string up(names_.conditioning_up), down(names_.conditioning_down);
    if (!config_.canvas->ancestral)
      return feed_forward({std::string(names_.conditioning_gate), up, down}, dim);
    const int64_t hidden = config_.hidden_dim;
    FeedForward ffn;
    ffn.up = linear(all_rows(up, dim), {0, dim}, hidden, Role::kInward,
                    config_.canvas->ancestral->conditioning_bias);
    ffn.down = linear(all_rows(down, hidden), {0, hidden}, dim, Role::kOutward, false);
    return ffn;
  }

  NoiseEmbedding noise_embedding() {
    const AncestralCanvas& canvas = *config_.canvas->ancestral;
    const int64_t width = 3 * config_.hidden_dim;
    const auto dense = [&](std::string_view name, int64_t outputs, int64_t inputs) {
      const std::string module(name);
      report(outputs);
      return Linear{matrix(all_rows(module, outputs), inputs, Role::kInward, formats_.dtype),
                    source_.values(module + ".bias", {outputs}, Role::kBias)};
    };
    NoiseEmbedding noise;
    noise.in = dense(names_.noise_in, canvas.noise_dim, canvas.frequency_dim);
    noise.out = dense(names_.noise_out, canvas.noise_dim, canvas.noise_dim);
    noise.projection = dense(names_.noise_projection, width, canvas.noise_dim);
    noise.layers = source_.values(std::string(names_.noise_layers), {config_.num_layers, width}, Role::kBias);
    report(config_.num_layers * width);
    return noise;
  }

  /// The matrices of a layer that convolves, and its taps, transposed.
  void build_convolution(const LayerTensorNames& names, LayerParameters& layer) {
    const int64_t hidden = config_.hidden_dim;
    int64_t first = 0;
    for (Linear* const part : {&layer.k, &layer.q, &layer.v}) {
      *part = linear({names.convolution_in, first, hidden, 3 * hidden}, {0, hidden}, hidden, Role::kInward,
                     false);
      first += hidden;
    }
    layer.o = linear(all_rows(names.convolution_out, hidden), {0, hidden}, hidden, Role::kOutward, false);
    const int64_t taps = config_.convolution->taps;
    const std::vector<float> stored = source_.values(names.taps, {hidden, 1, taps}, Role::kNorm);
    report(hidden * taps);
    for (int64_t tap = 0; tap < taps; ++tap)
      for (int64_t d = 0; d < hidden; ++d) layer.taps.push_back(stored[static_cast<size_t>(d * taps + tap)]);
  }

  LayerParameters build_layer(int64_t index) {
    const LayerTensorNames names = names_.layer(index);
    LayerParameters layer;
    layer.attn_norm = vector(names.attn_norm, config_.hidden_dim, Role::kNorm);
    config_.convolves(index) ? build_convolution(names, layer) : build_attention(index, names, layer);
    build_feed_forward(index, names, layer);
    return layer;
  }

  void build_attention(int64_t index, const LayerTensorNames& names, LayerParameters& layer) {
    const int64_t hidden = config_.hidden_dim;
    const int64_t q_dim = config_.q_dim_of(index);
    const int64_t kv_dim = config_.kv_dim_of(index);
    const auto part = [&](const std::string& module, int64_t first, int64_t count) {
      return names.qkv.empty() ? all_rows(module, count)
                               : ModuleRows{names.qkv, first, count, q_dim + 2 * kv_dim};
    };
    const ModelPart::Range heads = part_.kv_heads(config_.num_kv_heads_of(index));
    const auto rows_of_heads = [&](int64_t dim) {
      const int64_t per_head = dim / config_.num_kv_heads_of(index);
      return ModelPart::Range{heads.begin * per_head, heads.end * per_head};
    };
    layer.q = linear(part(names.q, 0, q_dim), rows_of_heads(q_dim), hidden, Role::kInward, config_.qkv_bias);
    layer.k =
        linear(part(names.k, q_dim, kv_dim), rows_of_heads(kv_dim), hidden, Role::kInward, config_.qkv_bias);
    if (config_.has_value_projection(index)) {
      layer.v = linear(part(names.v, q_dim + kv_dim, kv_dim), rows_of_heads(kv_dim), hidden, Role::kInward,
                       config_.qkv_bias);
    }
    layer.o = linear(all_rows(names.o, hidden), part_.outputs(hidden), q_dim, Role::kOutward,
                     config_.attn_output_bias);
    if (config_.qk_norm_per_head || config_.qk_norm_full) {
      const int64_t head_dim = config_.head_dim_of(index);
      layer.q_norm = vector(names.q_norm, config_.qk_norm_full ? q_dim : head_dim, Role::kNorm);
      layer.k_norm = vector(names.k_norm, config_.qk_norm_full ? kv_dim : head_dim, Role::kNorm);
    }
    if (config_.kv_sink) {
      layer.k_sink = sink(names.k_sink);
      layer.v_sink = sink(names.v_sink);
    }
  }

  void build_feed_forward(int64_t index, const LayerTensorNames& names, LayerParameters& layer) {
    const int64_t hidden = config_.hidden_dim;
    layer.ffn_norm = vector(names.ffn_norm, hidden, Role::kNorm);
    const bool has_experts = config_.layer_has_experts(index);
    if (has_experts) build_experts(index, names, layer);
    if (!has_experts || config_.moe.parallel_dense) {
      layer.ffn = feed_forward({names.gate, names.up, names.down}, config_.ffn_dim);
    }
    if (config_.norms_outputs) {
      layer.post_attn_norm = vector(names.post_attn_norm, hidden, Role::kNorm);
      layer.post_ffn_norm = vector(names.post_ffn_norm, hidden, Role::kNorm);
    }
    if (config_.layer_scalars) {
      layer.layer_scalar = values(names.layer_scalar, 1, Role::kNorm).front();
      layer.encoder_scalar = values(names.encoder_scalar, 1, Role::kNorm).front();
    }
  }

  void build_experts(int64_t index, const LayerTensorNames& names, LayerParameters& layer) {
    const MoeConfig& moe = config_.moe;
    const DType router_dtype = moe.router_in_f32 ? DType::kF32 : formats_.dtype;
    layer.router.weight =
        matrix(all_rows(names.router, moe.num_experts), config_.hidden_dim, Role::kInward, router_dtype);
    if (moe.selection_bias) {
      layer.expert_bias = source_.values(names.expert_bias, {moe.num_experts}, Role::kBias);
      report(moe.num_experts);
    }
    if (moe.parallel_dense) {
      layer.expert_norm = vector(names.expert_norm, config_.hidden_dim, Role::kNorm);
      layer.post_expert_norm = vector(names.post_expert_norm, config_.hidden_dim, Role::kNorm);
      layer.post_dense_norm = vector(names.post_dense_norm, config_.hidden_dim, Role::kNorm);
      layer.router_norm = values(names.router_scale, config_.hidden_dim, Role::kNorm);
      const float keep = 1 / std::sqrt(static_cast<float>(config_.hidden_dim));
      for (float& value : layer.router_norm) value *= keep;
      layer.expert_scale = values(names.expert_scale, moe.num_experts, Role::kNorm);
    }
    // Quantized copies may store each expert separately even in families that stack experts.
    const std::string& stack = names.stacked_experts.down;
    const bool is_stacked = !stack.empty() && (names_.expert == nullptr || source_.contains(stack) ||
                                               source_.contains(stack + ".weight"));
    for (int64_t e = 0; e < moe.num_experts; ++e) {
      if (is_stacked) {
        layer.experts.push_back(feed_forward(names.stacked_experts, moe.expert_ffn_dim, e, moe.num_experts));
      } else {
        layer.experts.push_back(feed_forward(names_.expert(index, e), moe.expert_ffn_dim));
      }
    }
    if (moe.shared_ffn_dim > 0) layer.shared_expert = feed_forward(names.shared, moe.shared_ffn_dim);
  }

  /// Part `part` of `parts` feed-forward layers stacked in the same tensors.
  FeedForward feed_forward(const ExpertTensorNames& names, int64_t dim, int64_t part = 0, int64_t parts = 1) {
    const int64_t hidden = config_.hidden_dim;
    const auto rows = [&](const std::string& module, int64_t count) {
      return ModuleRows{module, part * count, count, parts * count};
    };
    FeedForward ffn;
    const ModelPart::Range own = part_.outputs(dim);
    ffn.down = linear(rows(names.down, hidden), part_.outputs(hidden), dim, Role::kOutward, config_.ffn_bias);
    const bool is_one = names.gate.empty() || source_.contains(names.gate_up + ".weight");
    if (!names.gate_up.empty() && is_one) {
      const auto half = [&](int64_t index) {
        return ModuleRows{names.gate_up, (2 * part + index) * dim, dim, 2 * parts * dim};
      };
      ffn.gate = linear(half(0), own, hidden, Role::kInward, false);
      ffn.up = linear(half(1), own, hidden, Role::kInward, false);
      return ffn;
    }
    if (config_.activation != Activation::kSquaredRelu) {
      ffn.gate = linear(rows(names.gate, dim), own, hidden, Role::kInward, false);
    }
    ffn.up = linear(rows(names.up, dim), own, hidden, Role::kInward, config_.ffn_bias);
    return ffn;
  }

  std::vector<float> sink(const std::string& name) {
    report(config_.kv_dim());
    return source_.values(name, {config_.num_kv_heads, config_.head_dim}, Role::kBias);
  }

  /// The rank's part of a matrix.
  ///   own  the rank's range of `rows`
  Linear linear(const ModuleRows& rows, const ModelPart::Range& own, int64_t inputs, Role role,
                bool has_bias) {
    const ModuleRows kept{rows.module, rows.first + own.begin, own.size(), rows.total};
    Linear result;
    result.scale = product_scale(config_.product_scale, inputs, rows.count);
    if (own.size() > 0) result.weight = source_.matrix(kept, inputs, role, formats_.layers);
    report(rows.count * inputs);
    if (has_bias) {
      const std::vector<float> bias = source_.values(rows.module + ".bias", {rows.total}, Role::kBias);
      result.bias.assign(bias.begin() + kept.first, bias.begin() + kept.first + kept.count);
      report(rows.count);
    }
    return result;
  }

  PackedMatrix matrix(const ModuleRows& rows, int64_t inputs, Role role,
                      const std::optional<WeightFormat>& wanted) {
    PackedMatrix packed = source_.matrix(rows, inputs, role, wanted);
    report(rows.count * inputs);
    return packed;
  }

  std::vector<float> vector(const std::string& module, int64_t count, Role role) {
    report(count);
    std::vector<float> values = source_.values(module + ".weight", {count}, role);
    if (role == Role::kNorm && config_.norm_offset) {
      for (float& value : values) value += 1;
    }
    if (role == Role::kNorm && config_.layer_norm) {
      report(count);
      const std::vector<float> bias = source_.values(module + ".bias", {count}, Role::kBias);
      values.insert(values.end(), bias.begin(), bias.end());
    }
    return values;
  }

  /// Reads values by their full tensor name.
  std::vector<float> values(const std::string& name, int64_t count, Role role) {
    report(count);
    return source_.values(name, {count}, role);
  }

  void report(int64_t count) {
    done_ += count;
    if (progress_) progress_(done_, total_);
  }

  const ModelConfig& config_;
  const ModelPart part_;
  const TensorNames names_;
  Source& source_;
  const WeightFormats& formats_;
  const LoadProgress& progress_;
  const LayerSink take_layer_;
  int64_t total_;
  int64_t done_ = 0;
};

/// Empty if the matrix is dense.
std::optional<WeightFormat> stored_format(const StoredMatrix& stored) {
  const std::optional<Quantization> quantization = stored.quantization();
  return quantization ? std::optional<WeightFormat>(*quantization) : std::nullopt;
}

class CheckpointSource {
 public:
  CheckpointSource(const WeightSource& weights, DType dtype, ThreadPool& threads)
      : weights_(weights), dtype_(dtype), threads_(threads) {}

  bool contains(const std::string& tensor) const { return weights_.contains(tensor); }

  std::vector<float> values(const std::string& name, const std::vector<int64_t>& shape, Role) const {
    return weights_.values(name, shape);
  }

  /// Without a `wanted` format, quantized matrices stay as stored.
  PackedMatrix matrix(const ModuleRows& rows, int64_t inputs, Role,
                      const std::optional<WeightFormat>& wanted) const {
    // The previous matrix is packed by now, so release its mapped pages.
    weights_.release_pages();
    const std::unique_ptr<StoredMatrix> stored = weights_.matrix(rows.module, rows.total, inputs);
    const WeightFormat otherwise = stored_format(*stored).value_or(dtype_);
    return pack(threads_, wanted.value_or(otherwise), *stored, rows.first, rows.count, inputs);
  }

 private:
  const WeightSource& weights_;
  DType dtype_;
  ThreadPool& threads_;
};

/// Passes all tensors to a writer and keeps no matrix. A module is written whole when its first part is
/// requested.
class PackingSource {
 public:
  PackingSource(const CheckpointSource& source, const PackedTensorSink& write)
      : source_(source), write_(write) {}

  bool contains(const std::string& tensor) const { return source_.contains(tensor); }

  std::vector<float> values(const std::string& name, const std::vector<int64_t>& shape, Role role) {
    std::vector<float> values = source_.values(name, shape, role);
    if (written_.insert(name).second) write_(value_tensor(name, shape, values));
    return values;
  }

  PackedMatrix matrix(const ModuleRows& rows, int64_t inputs, Role role,
                      const std::optional<WeightFormat>& wanted) {
    if (written_.insert(rows.module).second) {
      const ModuleRows whole = {rows.module, 0, rows.total, rows.total};
      write_(panel_tensors(rows.module, source_.matrix(whole, inputs, role, wanted)));
    }
    return {};
  }

 private:
  const CheckpointSource& source_;
  const PackedTensorSink& write_;
  std::set<std::string> written_;
};

/// Adds up the bytes of matrices without reading them.
class MeasuringSource {
 public:
  /// stored  null: a dense checkpoint
  MeasuringSource(const WeightSource* stored, DType dtype, const MatrixBytes& bytes_of)
      : stored_(stored), dtype_(dtype), bytes_of_(bytes_of) {}

  int64_t bytes() const { return bytes_; }

  bool contains(const std::string& tensor) const { return stored_ == nullptr || stored_->contains(tensor); }

  std::vector<float> values(const std::string& /*name*/, const std::vector<int64_t>& shape, Role) const {
    return std::vector<float>(static_cast<size_t>(count_of(shape)));
  }

  PackedMatrix matrix(const ModuleRows& rows, int64_t inputs, Role,
                      const std::optional<WeightFormat>& wanted) {
    std::optional<WeightFormat> format = wanted;
    if (!format && stored_ != nullptr)
      format = stored_format(*stored_->matrix(rows.module, rows.total, inputs));
    bytes_ += bytes_of_(format.value_or(dtype_), rows.count, inputs);
    return {};
  }

 private:
  const WeightSource* stored_;
  DType dtype_;
  const MatrixBytes& bytes_of_;
  int64_t bytes_ = 0;
};

class RandomSource {
 public:
  RandomSource(const ModelConfig& config, uint64_t seed, DType dtype, ThreadPool& threads)
      : config_(config), seed_(seed), dtype_(dtype), threads_(threads) {}

  static bool contains(const std::string& /*tensor*/) { return true; }

  std::vector<float> values(const std::string& name, const std::vector<int64_t>& shape, Role role) const {
    const int64_t count = count_of(shape);
    const float stored_one = config_.norm_offset ? 0.0F : 1.0F;
    std::vector<float> values(static_cast<size_t>(count), role == Role::kNorm ? stored_one : 0.0F);
    if (role == Role::kBias) fill(RngStream(seed_, hash(name)), 0.1F, count, values.data());
    return values;
  }

  PackedMatrix matrix(const ModuleRows& rows, int64_t inputs, Role role,
                      const std::optional<WeightFormat>& wanted) const {
    const Rows stored(seed_, hash(rows.module), deviation(role, inputs), inputs);
    return pack(threads_, wanted.value_or(dtype_), stored, rows.first, rows.count, inputs);
  }

 private:
  class Rows : public StoredMatrix {
   public:
    Rows(uint64_t seed, uint64_t name, float deviation, int64_t inputs)
        : seed_(seed), name_(name), deviation_(deviation), inputs_(inputs) {}
    void read(int64_t n, float* out) const override {
      fill(RngStream(seed_, name_, n), deviation_, inputs_, out);
    }

   private:
    uint64_t seed_, name_;
    float deviation_;
    int64_t inputs_;
  };

  static uint64_t hash(std::string_view name) {
    uint64_t value = 0;
    for (const char c : name) value = mix_bits(value * 31 + static_cast<unsigned char>(c));
    return value;
  }

  /// Standard deviation that preserves the activations' magnitude; projections that write the residual stream
  /// share its growth.
  float deviation(Role role, int64_t inputs) const {
    const float keep = 1.0F / std::sqrt(static_cast<float>(inputs));
    const bool writes_logits = role == Role::kHead || (role == Role::kEmbedding && config_.tied_embeddings);
    if (writes_logits) return 3 * keep;
    if (role == Role::kEmbedding) return 1;
    if (role == Role::kOutward) {
      return keep / (config_.residual_scale * std::sqrt(2 * static_cast<float>(config_.num_layers)));
    }
    return keep;
  }

  /// Uniform numbers with this standard deviation: 16 random bits each, four per 64-bit sample.
  static void fill(const RngStream& stream, float deviation, int64_t count, float* out) {
    const float scale = deviation * std::sqrt(3.0F) / 32768;
    for (int64_t i = 0; i < count; i += 4) {
      uint64_t bits = stream.bits(static_cast<uint64_t>(i / 4));
      for (int64_t j = i; j < std::min(i + 4, count); ++j, bits >>= 16) {
        out[j] = static_cast<float>(bf16(scale * static_cast<float>(static_cast<int16_t>(bits & 0xffff))));
      }
    }
  }

  const ModelConfig& config_;
  uint64_t seed_;
  DType dtype_;
  ThreadPool& threads_;
};

/// Calls use(linear) for each projection of the layers.
template <typename Use>
void for_each_linear(const Parameters& parameters, Use&& use) {
  const auto use_all = [&](const FeedForward& ffn) {
    for (const Linear* linear : {&ffn.gate, &ffn.up, &ffn.down}) use(*linear);
  };
  for (const LayerParameters& layer : parameters.layers) {
    for (const Linear* linear : {&layer.q, &layer.k, &layer.v, &layer.o, &layer.router}) use(*linear);
    use_all(layer.ffn);
    for (const FeedForward& expert : layer.experts) use_all(expert);
    use_all(layer.shared_expert);
  }
  if (parameters.conditioning) use_all(parameters.conditioning->ffn);
  if (!parameters.noise) return;
  for (const Linear* linear : {&parameters.noise->in, &parameters.noise->out, &parameters.noise->projection})
    use(*linear);
}

}  // namespace

int64_t Parameters::bytes() const {
  int64_t total = embedding.bytes() + own_head.bytes();
  for_each_linear(*this, [&](const Linear& linear) {
    total += linear.weight.bytes() + static_cast<int64_t>(linear.bias.size() * sizeof(float));
  });
  return total;
}

std::vector<std::span<const std::byte>> Parameters::mapped_panels() const {
  std::vector<std::span<const std::byte>> mapped;
  const auto add = [&](const PackedMatrix& matrix) {
    if (matrix.is_mapped()) mapped.push_back(matrix.panels());
  };
  add(embedding);
  for_each_linear(*this, [&](const Linear& linear) { add(linear.weight); });
  add(own_head);
  return mapped;
}

int64_t predicted_bytes(const ModelConfig& config, const WeightFormats& formats, const WeightSource* stored,
                        const ModelPart& part, const MatrixBytes& bytes_of) {
  MeasuringSource measuring(stored, formats.dtype, bytes_of);
  Builder(config, measuring, formats, {}, part).build();
  return measuring.bytes();
}

Parameters load_parameters(const ModelConfig& config, const WeightSource& source,
                           const WeightFormats& formats, ThreadPool& threads, const LoadProgress& progress,
                           const ModelPart& part, const LayerSink& take_layer) {
  CheckpointSource checkpoint(source, formats.dtype, threads);
  return Builder(config, checkpoint, formats, progress, part, take_layer).build();
}

void pack_parameters(const ModelConfig& config, const WeightSource& source, const WeightFormats& formats,
                     ThreadPool& threads, const LoadProgress& progress, const PackedTensorSink& write) {
  const CheckpointSource checkpoint(source, formats.dtype, threads);
  PackingSource packing(checkpoint, write);
  Builder(config, packing, formats, progress, ModelPart()).build();
}

Parameters random_parameters(const ModelConfig& config, uint64_t seed, const WeightFormats& formats,
                             ThreadPool& threads, const LoadProgress& progress, const ModelPart& part,
                             const LayerSink& take_layer) {
  RandomSource random(config, seed, formats.dtype, threads);
  return Builder(config, random, formats, progress, part, take_layer).build();
}

}  // namespace lacuna
