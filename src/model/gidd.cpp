// GIDD's scaling-study models (von Rütte et al. 2025, arXiv 2512.10858; GiddForDiffusionLM): 3B and 10B with
// uniform noise, 3B with masks. Its block differs from others: norm weights are offsets from 1, q and k are
// normed over their full width, each layer has one learned key and value that all rows attend to, scores are
// capped by a tanh, the feed-forward part is a squared ReLU with biases, and the residual branches and the
// head are scaled. Row i predicts position i. Two groups of rows replace the attention mask of the published
// code, in which clean rows do not attend to noisy ones.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "model/family_parts.h"

namespace lacuna {
namespace {

constexpr Range<double> kScale{1e-4, 1e4};

/// Reads the factor of the layers' matmul outputs: a number, or a word for a power of a matrix's width.
void read_weight_scaling(const JsonObject& json, ModelConfig& config) {
  const nlohmann::json* const value = json.value("weight_scaling");
  if (value == nullptr || *value == "fan_in") {
    config.product_scale = ProductScale::kByInputs;
  } else if (*value == "fan_out") {
    config.product_scale = ProductScale::kByOutputs;
  } else if (!value->is_number() || *value != 1) {
    json.refuse("weight_scaling", "1, \"fan_in\" or \"fan_out\"");
  }
}

/// Absent keys take the published class's defaults, which may differ from the published files.
ModelConfig read_gidd(const JsonObject& json) {
  json.expect("is_causal", false);
  ModelConfig config;
  config.num_layers = json.integer("num_hidden_layers", kLayerCount);
  config.hidden_dim = json.integer("hidden_size", kWidth);
  config.num_heads = json.integer("num_attention_heads", kWidth);
  config.num_kv_heads = config.num_heads;
  config.head_dim = read_head_dim(json, config);
  config.ffn_dim = json.integer("intermediate_size", kWidth, 4 * config.hidden_dim);
  config.vocab_size = json.integer("vocab_size", kVocabSize, 131072);
  config.max_positions = json.integer("max_position_embeddings", kPositionCount, 1024);
  config.norm_eps = json.number("rms_norm_eps", kNormEps, 1e-6F);
  config.norm_offset = true;
  set_rope(json, config, {.usual_theta = kUsualTheta, .scales = false});
  config.qk_norm_full = json.flag("use_qk_norm", true);
  config.kv_sink = json.flag("attention_bias", false);
  config.attn_soft_cap = json.number("attn_soft_cap", kScale, 30.0F);
  config.activation = Activation::kSquaredRelu;
  config.ffn_bias = json.flag("mlp_bias", false);
  read_weight_scaling(json, config);
  config.tied_embeddings = json.flag("tie_word_embeddings", false);
  config.residual_scale = json.number("resid_scale", kScale, 4.0F) / static_cast<float>(config.num_layers);
  config.logit_scale = json.number("head_scaling", kScale, 1.0F);

  NoiseProcess noise;
  noise.uniform_shift = json.number("noise_type", {-1e4, 1e4}, 0.0F);
  read_log_snr(json, noise);
  config.noise = noise;
  // The tokenizer's first four tokens. The published configs name neither padding nor mask.
  config.bos_id = 0;
  config.eos_id = 1;
  config.pad_id = 2;
  config.mask_id = read_token_id(json, "mask_token_id", config, 3);
  if (config.mask_id < 0 || config.mask_id >= config.vocab_size) json.refuse("mask_token_id", "a token id");
  return config;
}

LayerTensorNames name_gidd_layer(int64_t layer) {
  LayerTensorNames names = transformers_layer_with_qk_norm(layer);
  const std::string prefix = fmt::format("model.layers.{}.", layer);
  names.attn_norm = prefix + "attn_layernorm";
  names.ffn_norm = prefix + "mlp_layernorm";
  names.gate.clear();
  names.k_sink = prefix + "self_attn.k_bias";
  names.v_sink = prefix + "self_attn.v_bias";
  return names;
}

constexpr std::string_view kGidd3b = R"({"architectures": ["GiddForDiffusionLM"],
    "hidden_size": 3072, "num_hidden_layers": 19, "num_attention_heads": 24, "vocab_size": 131072,
    "max_position_embeddings": 2048, "attention_bias": true, "mlp_bias": true, "weight_scaling": 1.0,
    "head_scaling": 0.16666666666666666, "noise_type": 1000.0, "bos_token_id": 0, "eos_token_id": 1})";

}  // namespace

FamilyEntry gidd_family() {
  return {.name = "gidd",
          .architecture = "GiddForDiffusionLM",
          .read_config = read_gidd,
          .tensors = transformers_tensors(name_gidd_layer),
          // Initialization, and the choice between two equivalent attention implementations.
          .harmless_keys = {"attn_performer", "emb_init_scale", "head_init_scale", "init_scale"},
          .model_types = {"gidd"},
          .published = {
              PublishedConfig{"gidd-3b", kGidd3b},
              PublishedConfig{"gidd-mask-3b", kGidd3b, R"({"num_hidden_layers": 18, "noise_type": -1000.0})"},
              PublishedConfig{"gidd-10b", kGidd3b, R"({"hidden_size": 4608, "num_hidden_layers": 34,
      "num_attention_heads": 36, "head_scaling": 0.1111111111111111})"},
          }};
}

}  // namespace lacuna
