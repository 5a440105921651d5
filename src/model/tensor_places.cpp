#include "model/tensor_places.h"

#include <fmt/format.h>

#include <utility>

namespace lacuna {
namespace {

/// Index of one of `count` stacked parts.
struct PartOf {
  int64_t index = 0, count = 1;
};

class Places {
 public:
  Places(const ModelConfig& config, const TensorNames& names, const HoldsTensor& holds)
      : config_(config), names_(names), holds_(holds) {}

  std::vector<MatrixPlace> take() { return std::move(places_); }

  void add_all() {
    const int64_t hidden = config_.hidden_dim;
    add("embedding", std::string(names_.embedding), config_.vocab_size, hidden);
    add("head", std::string(names_.head), config_.vocab_size, hidden);
    for (int64_t layer = 0; layer < config_.num_layers; ++layer) add_layer(layer);
    if (!config_.canvas) return;
    const ExpertTensorNames conditioning{std::string(names_.conditioning_gate),
                                         std::string(names_.conditioning_up),
                                         std::string(names_.conditioning_down)};
    if (config_.canvas->ancestral) return add_ancestral(*config_.canvas->ancestral, conditioning);
    add_feed_forward("conditioning", conditioning, config_.canvas->conditioning_dim);
  }

 private:
  void add(std::string key, const std::string& module, int64_t count, int64_t inputs, bool has_bias = false) {
    add(std::move(key), module, {0, count, count}, inputs, has_bias);
  }

  struct Rows {
    int64_t first, count, total;
  };
  void add(std::string key, const std::string& module, const Rows& rows, int64_t inputs, bool has_bias) {
    if (module.empty()) return;
    places_.push_back({std::move(key), module, rows.first, rows.count, rows.total, inputs, has_bias});
  }

  void add_ancestral(const AncestralCanvas& canvas, const ExpertTensorNames& conditioning) {
    const int64_t hidden = config_.hidden_dim;
    add("conditioning.up", conditioning.up, hidden, hidden, canvas.conditioning_bias);
    add("conditioning.down", conditioning.down, hidden, hidden);
    add("noise.in", std::string(names_.noise_in), canvas.noise_dim, canvas.frequency_dim, true);
    add("noise.out", std::string(names_.noise_out), canvas.noise_dim, canvas.noise_dim, true);
    add("noise.projection", std::string(names_.noise_projection), 3 * hidden, canvas.noise_dim, true);
  }

  void add_layer(int64_t index) {
    const LayerTensorNames names = names_.layer(index);
    const std::string prefix = fmt::format("{}.", index);
    const int64_t hidden = config_.hidden_dim;
    if (config_.convolves(index)) {
      int64_t first = 0;
      for (const char* const part : {"k", "q", "v"}) {
        add(prefix + part, names.convolution_in, {first, hidden, 3 * hidden}, hidden, false);
        first += hidden;
      }
      add(prefix + "o", names.convolution_out, hidden, hidden);
      return add_feed_forward(prefix + "ffn", {names.gate, names.up, names.down}, config_.ffn_dim);
    }
    const int64_t q_dim = config_.q_dim_of(index);
    const int64_t kv_dim = config_.kv_dim_of(index);
    const int64_t all = q_dim + 2 * kv_dim;
    const bool has_bias = config_.qkv_bias;
    const auto add_part = [&](const char* key, const std::string& module, int64_t first, int64_t count) {
      if (names.qkv.empty()) return add(prefix + key, module, count, hidden, has_bias);
      add(prefix + key, names.qkv, {first, count, all}, hidden, has_bias);
    };
    add_part("q", names.q, 0, q_dim);
    add_part("k", names.k, q_dim, kv_dim);
    if (config_.has_value_projection(index)) add_part("v", names.v, q_dim + kv_dim, kv_dim);
    add(prefix + "o", names.o, hidden, q_dim, config_.attn_output_bias);
    const bool has_experts = config_.layer_has_experts(index);
    if (has_experts) add_experts(index, prefix, names);
    if (!has_experts || config_.moe.parallel_dense)
      add_feed_forward(prefix + "ffn", {names.gate, names.up, names.down}, config_.ffn_dim);
  }

  void add_experts(int64_t index, const std::string& prefix, const LayerTensorNames& names) {
    const MoeConfig& moe = config_.moe;
    add(prefix + "router", names.router, moe.num_experts, config_.hidden_dim);
    const bool is_stacked = !names.stacked_experts.down.empty();
    for (int64_t e = 0; e < moe.num_experts; ++e) {
      const std::string key = fmt::format("{}expert.{}", prefix, e);
      if (is_stacked) {
        add_feed_forward(key, names.stacked_experts, moe.expert_ffn_dim, {e, moe.num_experts});
      } else {
        add_feed_forward(key, names_.expert(index, e), moe.expert_ffn_dim);
      }
    }
    if (moe.shared_ffn_dim > 0) add_feed_forward(prefix + "shared", names.shared, moe.shared_ffn_dim);
  }

  void add_feed_forward(const std::string& key, const ExpertTensorNames& names, int64_t dim,
                        const PartOf& part = {}) {
    const int64_t hidden = config_.hidden_dim;
    const auto add_rows = [&](const char* which, const std::string& module, int64_t count, int64_t inputs,
                              bool has_bias) {
      add(fmt::format("{}.{}", key, which), module, {part.index * count, count, part.count * count}, inputs,
          has_bias);
    };
    add_rows("down", names.down, hidden, dim, config_.ffn_bias);
    const bool is_one = names.gate.empty() || (holds_ && holds_(names.gate_up + ".weight"));
    const bool lists_both = !holds_;
    const bool has_gate = config_.activation != Activation::kSquaredRelu;
    if (!names.gate_up.empty() && (is_one || lists_both)) {
      for (const int64_t half : {0, 1}) {
        add(fmt::format("{}.{}", key, half == 0 ? "gate" : "up"), names.gate_up,
            {(2 * part.index + half) * dim, dim, 2 * part.count * dim}, hidden, false);
      }
      if (is_one) return;
    }
    if (has_gate) add_rows("gate", names.gate, dim, hidden, false);
    add_rows("up", names.up, dim, hidden, config_.ffn_bias);
  }

  const ModelConfig& config_;
  const TensorNames& names_;
  const HoldsTensor& holds_;
  std::vector<MatrixPlace> places_;
};

}  // namespace

std::vector<MatrixPlace> matrix_places(const ModelConfig& config, const TensorNames& names,
                                       const HoldsTensor& holds) {
  Places places(config, names, holds);
  places.add_all();
  return places.take();
}

std::vector<VectorPlace> vector_places(const ModelConfig& config, const TensorNames& names) {
  std::vector<VectorPlace> places;
  const auto add = [&](std::string key, const std::string& tensor, std::vector<int64_t> shape) {
    if (!tensor.empty()) places.push_back({std::move(key), tensor, std::move(shape)});
  };
  const int64_t hidden = config.hidden_dim;
  const auto add_norm = [&](std::string key, const std::string& module, int64_t count) {
    if (module.empty()) return;
    add(key, module + ".weight", {count});
    if (config.layer_norm) add(key + ".bias", module + ".bias", {count});
  };
  add_norm("final_norm", std::string(names.final_norm), hidden);
  if (config.canvas) add_norm("conditioning_norm", std::string(names.conditioning_norm), hidden);
  if (config.knows_noise_levels())
    add("noise.layers", std::string(names.noise_layers), {config.num_layers, 3 * hidden});
  for (int64_t index = 0; index < config.num_layers; ++index) {
    const LayerTensorNames layer = names.layer(index);
    const auto key = [&](const char* name) { return fmt::format("{}.{}", index, name); };
    add_norm(key("attn_norm"), layer.attn_norm, hidden);
    add_norm(key("ffn_norm"), layer.ffn_norm, hidden);
    if (config.convolves(index)) {
      add(key("taps"), layer.taps, {hidden, 1, config.convolution->taps});
      continue;
    }
    if (config.qk_norm_per_head || config.qk_norm_full) {
      const bool is_full = config.qk_norm_full;
      add_norm(key("q_norm"), layer.q_norm, is_full ? config.q_dim_of(index) : config.head_dim_of(index));
      add_norm(key("k_norm"), layer.k_norm, is_full ? config.kv_dim_of(index) : config.head_dim_of(index));
    }
    if (config.norms_outputs) {
      add_norm(key("post_attn_norm"), layer.post_attn_norm, hidden);
      add_norm(key("post_ffn_norm"), layer.post_ffn_norm, hidden);
    }
    if (config.kv_sink) {
      add(key("k_sink"), layer.k_sink, {config.num_kv_heads, config.head_dim});
      add(key("v_sink"), layer.v_sink, {config.num_kv_heads, config.head_dim});
    }
    if (config.layer_has_experts(index) && config.moe.selection_bias)
      add(key("expert_bias"), layer.expert_bias, {config.moe.num_experts});
  }
  return places;
}

}  // namespace lacuna
