#include "model/parameters.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "base/rng.h"
#include "model/families.h"

namespace lacuna {
namespace {

/// Builds Parameters from any source of numbers. `Source` supplies
///   values(name, shape, role) -> std::vector<float>
///   rows(module, outputs, inputs, role) -> callable (row, float* out)
/// and the walk below is the one list of what a model consists of.
enum class Role : uint8_t { kEmbedding, kHead, kInward, kOutward, kNorm, kBias };

int64_t count_of(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

template <typename Source>
class Builder {
 public:
  Builder(const ModelConfig& config, const Source& source, DType dtype, ThreadPool& threads,
          const LoadProgress& progress)
      : config_(config),
        names_(family_entry(config.family).tensors),
        source_(source),
        dtype_(dtype),
        threads_(threads),
        progress_(progress),
        total_(count_parameters(config)) {}

  Parameters build() {
    const int64_t vocab = config_.vocab_size;
    const int64_t hidden = config_.hidden_dim;
    const auto embedding_rows = source_.rows(std::string(names_.embedding), vocab, hidden, Role::kEmbedding);
    Parameters parameters{Embedding(threads_, dtype_, vocab, hidden, embedding_rows), {}, {}, {}};
    report(vocab * hidden);
    for (int64_t layer = 0; layer < config_.num_layers; ++layer)
      parameters.layers.push_back(build_layer(layer));
    parameters.final_norm = vector(std::string(names_.final_norm), hidden, Role::kNorm);
    if (config_.tied_embeddings) {
      parameters.head = PackedMatrix(threads_, dtype_, vocab, hidden, embedding_rows);
    } else {
      parameters.head = matrix(std::string(names_.head), vocab, hidden, Role::kHead);
    }
    return parameters;
  }

 private:
  LayerParameters build_layer(int64_t index) {
    const LayerTensorNames names = names_.layer(index);
    const int64_t hidden = config_.hidden_dim;
    const int64_t q_dim = config_.q_dim();
    const int64_t kv_dim = config_.kv_dim();
    LayerParameters layer;
    layer.attn_norm = vector(names.attn_norm, hidden, Role::kNorm);
    layer.q = linear(names.q, q_dim, hidden, Role::kInward, config_.qkv_bias);
    layer.k = linear(names.k, kv_dim, hidden, Role::kInward, config_.qkv_bias);
    layer.v = linear(names.v, kv_dim, hidden, Role::kInward, config_.qkv_bias);
    layer.o = linear(names.o, hidden, q_dim, Role::kOutward, config_.attn_output_bias);
    if (config_.qk_norm_per_head || config_.qk_norm_full) {
      layer.q_norm = vector(names.q_norm, config_.qk_norm_full ? q_dim : config_.head_dim, Role::kNorm);
      layer.k_norm = vector(names.k_norm, config_.qk_norm_full ? kv_dim : config_.head_dim, Role::kNorm);
    }
    if (config_.kv_sink) {
      layer.k_sink = sink(names.k_sink);
      layer.v_sink = sink(names.v_sink);
    }
    layer.ffn_norm = vector(names.ffn_norm, hidden, Role::kNorm);
    if (config_.has_experts()) {
      layer.router = linear(names.router, config_.moe.num_experts, hidden, Role::kInward, false);
      for (int64_t e = 0; e < config_.moe.num_experts; ++e) {
        const ExpertTensorNames expert = names_.expert(index, e);
        layer.experts.push_back(
            feed_forward(expert.gate, expert.up, expert.down, config_.moe.expert_ffn_dim));
      }
    } else {
      layer.ffn = feed_forward(names.gate, names.up, names.down, config_.ffn_dim);
    }
    return layer;
  }

  FeedForward feed_forward(const std::string& gate, const std::string& up, const std::string& down,
                           int64_t dim) {
    const int64_t hidden = config_.hidden_dim;
    FeedForward ffn;
    if (!config_.squared_relu) ffn.gate = linear(gate, dim, hidden, Role::kInward, false);
    ffn.up = linear(up, dim, hidden, Role::kInward, config_.ffn_bias);
    ffn.down = linear(down, hidden, dim, Role::kOutward, config_.ffn_bias);
    return ffn;
  }

  std::vector<float> sink(const std::string& name) {
    report(config_.kv_dim());
    return source_.values(name, {config_.num_kv_heads, config_.head_dim}, Role::kBias);
  }

  Linear linear(const std::string& module, int64_t outputs, int64_t inputs, Role role, bool has_bias) {
    Linear result;
    result.weight = matrix(module, outputs, inputs, role);
    if (has_bias) {
      result.bias = source_.values(module + ".bias", {outputs}, Role::kBias);
      report(outputs);
    }
    return result;
  }

  PackedMatrix matrix(const std::string& module, int64_t outputs, int64_t inputs, Role role) {
    PackedMatrix packed(threads_, dtype_, outputs, inputs, source_.rows(module, outputs, inputs, role));
    report(outputs * inputs);
    return packed;
  }

  std::vector<float> vector(const std::string& module, int64_t count, Role role) {
    report(count);
    std::vector<float> values = source_.values(module + ".weight", {count}, role);
    if (role == Role::kNorm && config_.norm_offset) {
      for (float& value : values) value += 1;
    }
    return values;
  }

  void report(int64_t count) {
    done_ += count;
    if (progress_) progress_(done_, total_);
  }

  const ModelConfig& config_;
  TensorNames names_;
  const Source& source_;
  DType dtype_;
  ThreadPool& threads_;
  const LoadProgress& progress_;
  int64_t total_;
  int64_t done_ = 0;
};

class CheckpointSource {
 public:
  explicit CheckpointSource(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  std::vector<float> values(const std::string& name, const std::vector<int64_t>& shape, Role) const {
    std::vector<float> values(static_cast<size_t>(count_of(shape)));
    widen(checkpoint_.tensor(name, shape), 0, values);
    return values;
  }

  auto rows(const std::string& module, int64_t outputs, int64_t inputs, Role) const {
    return [tensor = checkpoint_.tensor(module + ".weight", {outputs, inputs}), inputs](int64_t row,
                                                                                        float* out) {
      widen(tensor, row * inputs, {out, static_cast<size_t>(inputs)});
    };
  }

 private:
  const Checkpoint& checkpoint_;
};

class RandomSource {
 public:
  RandomSource(const ModelConfig& config, uint64_t seed) : config_(config), seed_(seed) {}

  std::vector<float> values(const std::string& name, const std::vector<int64_t>& shape, Role role) const {
    const int64_t count = count_of(shape);
    const float stored_one = config_.norm_offset ? 0.0F : 1.0F;
    std::vector<float> values(static_cast<size_t>(count), role == Role::kNorm ? stored_one : 0.0F);
    if (role == Role::kBias) fill(RngStream(seed_, hash(name)), 0.1F, count, values.data());
    return values;
  }

  auto rows(const std::string& module, int64_t, int64_t inputs, Role role) const {
    return [this, name = hash(module), deviation = deviation(role, inputs), inputs](int64_t row, float* out) {
      fill(RngStream(seed_, name, row), deviation, inputs, out);
    };
  }

 private:
  static uint64_t hash(std::string_view name) {
    uint64_t value = 0;
    for (const char c : name) value = mix_bits(value * 31 + static_cast<unsigned char>(c));
    return value;
  }

  /// Projections keep the size of what they read; those that write the residual stream share its growth.
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

  /// Uniform with this standard deviation: 16 bits a number, four numbers a draw.
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
};

int64_t bytes_of(const Linear& linear) {
  return linear.weight.bytes() + static_cast<int64_t>(linear.bias.size() * sizeof(float));
}

int64_t bytes_of(const FeedForward& ffn) {
  return bytes_of(ffn.gate) + bytes_of(ffn.up) + bytes_of(ffn.down);
}

}  // namespace

void Embedding::read(TokenId token, float* out) const {
  const std::byte* row = memory_.data() + token * dim_ * static_cast<int64_t>(size_of(dtype_));
  if (dtype_ == DType::kF32) {
    std::memcpy(out, row, static_cast<size_t>(dim_) * sizeof(float));
    return;
  }
  const auto* values = reinterpret_cast<const bf16*>(row);
  for (int64_t i = 0; i < dim_; ++i) out[i] = static_cast<float>(values[i]);
}

void Embedding::store(int64_t row, const float* values) {
  std::byte* target = memory_.data() + row * dim_ * static_cast<int64_t>(size_of(dtype_));
  if (dtype_ == DType::kF32) {
    std::memcpy(target, values, static_cast<size_t>(dim_) * sizeof(float));
    return;
  }
  auto* rounded = reinterpret_cast<bf16*>(target);
  for (int64_t i = 0; i < dim_; ++i) rounded[i] = bf16(values[i]);
}

int64_t Parameters::bytes() const {
  int64_t total = embedding.bytes() + head.bytes();
  for (const LayerParameters& layer : layers) {
    total += bytes_of(layer.q) + bytes_of(layer.k) + bytes_of(layer.v) + bytes_of(layer.o);
    total += bytes_of(layer.ffn) + bytes_of(layer.router);
    for (const FeedForward& expert : layer.experts) total += bytes_of(expert);
  }
  return total;
}

int64_t count_parameters(const ModelConfig& config) {
  const int64_t hidden = config.hidden_dim;
  int64_t layer = 2 * hidden + hidden * (2 * config.q_dim() + 2 * config.kv_dim());
  if (config.qkv_bias) layer += config.q_dim() + 2 * config.kv_dim();
  if (config.attn_output_bias) layer += hidden;
  if (config.qk_norm_per_head) layer += 2 * config.head_dim;
  if (config.qk_norm_full) layer += config.q_dim() + config.kv_dim();
  if (config.has_experts()) {
    layer += config.moe.num_experts * (hidden + 3 * hidden * config.moe.expert_ffn_dim);
  } else {
    layer += (config.squared_relu ? 2 : 3) * hidden * config.ffn_dim;
    if (config.ffn_bias) layer += config.ffn_dim + hidden;
  }
  if (config.kv_sink) layer += 2 * config.kv_dim();
  const int64_t embeddings = (config.tied_embeddings ? 1 : 2) * config.vocab_size * hidden;
  return embeddings + config.num_layers * layer + hidden;
}

Parameters load_parameters(const ModelConfig& config, const Checkpoint& checkpoint, DType dtype,
                           ThreadPool& threads, const LoadProgress& progress) {
  return Builder(config, CheckpointSource(checkpoint), dtype, threads, progress).build();
}

Parameters random_parameters(const ModelConfig& config, uint64_t seed, DType dtype, ThreadPool& threads,
                             const LoadProgress& progress) {
  return Builder(config, RandomSource(config, seed), dtype, threads, progress).build();
}

}  // namespace lacuna
