// Gemma 3 (google/gemma-3-*; Gemma3ForCausalLM), text only, left to right. Most layers have sliding-window
// attention with a smaller RoPE theta. RMSNorm applies before and after attention and feed-forward layers,
// and to each head of q and k. The components are those of Gemma 4 (diffusion_gemma.cpp) without experts.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/family_parts.h"
#include "model/gguf_keys.h"

namespace lacuna {
namespace {

constexpr std::string_view kGemma3Slides = "sliding_attention";
constexpr std::string_view kGemma3SeesAll = "full_attention";
constexpr int64_t kPattern = 6;  // every sixth layer has full attention
constexpr float kThetaOfWindows = 10000;

std::vector<bool> read_gemma3_layers(const JsonObject& json, int64_t num_layers) {
  std::vector<bool> slides;
  for (const char* const key : {"sliding_window_pattern", "_sliding_window_pattern"}) json.has(key);
  if (!json.has("layer_types")) {
    const int64_t pattern = json.integer("sliding_window_pattern", kLayerCount, kPattern);
    for (int64_t layer = 0; layer < num_layers; ++layer) slides.push_back((layer + 1) % pattern != 0);
    return slides;
  }
  for (const std::string& kind : json.texts("layer_types")) {
    if (kind != kGemma3Slides && kind != kGemma3SeesAll)
      json.refuse("layer_types", fmt::format("a list of {} and {}", kGemma3Slides, kGemma3SeesAll));
    slides.push_back(kind == kGemma3Slides);
  }
  if (std::ssize(slides) != num_layers) json.refuse("layer_types", fmt::format("a list of {}", num_layers));
  return slides;
}

ModelConfig read_gemma3(const JsonObject& json) {
  json.expect_absent("mask_token_id");  // a diffusion model under a borrowed class
  json.expect("hidden_activation", "gelu_pytorch_tanh");
  json.expect("attention_bias", false);
  json.expect("use_bidirectional_attention", false);
  ModelConfig config = read_transformers_sizes(json);
  config.causal = true;
  config.tied_embeddings = json.flag("tie_word_embeddings", true);
  config.ffn_dim = json.integer("intermediate_size", kWidth);
  config.head_dim = json.integer("head_dim", kWidth, 256);
  config.activation = Activation::kGeluTanh;
  config.qk_norm_per_head = true;
  config.norms_outputs = true;
  // Lacuna's own key, for files that store 1 + w.
  config.norm_offset = json.flag("norms_add_one", true);
  config.embedding_scale = std::sqrt(static_cast<float>(config.hidden_dim));
  config.rounds_embedding_scale = true;
  config.attn_scale = 1 / std::sqrt(json.number("query_pre_attn_scalar", {1, 1e6}, 256.0F));
  config.attn_soft_cap = json.number("attn_logit_softcapping", {0, 1e6}, 0.0F);
  config.logit_soft_cap = json.number("final_logit_softcapping", {0, 1e6}, 0.0F);
  SlidingAttention sliding;
  sliding.layers = read_gemma3_layers(json, config.num_layers);
  sliding.window = json.integer("sliding_window", kPositionCount, 4096);
  sliding.num_kv_heads = config.num_kv_heads;
  sliding.head_dim = config.head_dim;
  const auto rotation = [&](const RopeRules& rules) {
    return read_rope(json, config.head_dim, config.max_positions, rules).rope;
  };
  config.rope = rotation({.usual_theta = 1e6F, .layers = kGemma3SeesAll, .is_only_kind = false});
  sliding.rope = rotation({.usual_theta = kThetaOfWindows,
                           .layers = kGemma3Slides,
                           .is_only_kind = false,
                           .outer_theta = "rope_local_base_freq"});
  config.sliding = std::move(sliding);
  return config;
}

LayerTensorNames gemma3_layer(int64_t layer) {
  LayerTensorNames names = transformers_layer(layer);
  const std::string prefix = fmt::format("model.layers.{}.", layer);
  names.q_norm = prefix + "self_attn.q_norm";
  names.k_norm = prefix + "self_attn.k_norm";
  names.post_attn_norm = prefix + "post_attention_layernorm";
  names.ffn_norm = prefix + "pre_feedforward_layernorm";
  names.post_ffn_norm = prefix + "post_feedforward_layernorm";
  return names;
}

nlohmann::json read_gemma3_gguf(const GgufKeys& keys) {
  constexpr int64_t kLayersOf27b = 62;  // only this model divides scores by sqrt(hidden / heads)
  nlohmann::json config = gguf_sizes(keys, "Gemma3ForCausalLM", true);
  const auto num_layers = config["num_hidden_layers"].get<int64_t>();
  const auto width = config["hidden_size"].get<int64_t>() / config["num_attention_heads"].get<int64_t>();
  const auto head_dim = config["head_dim"].get<int64_t>();
  const int64_t pattern = keys.integer("attention.sliding_window_pattern", kLayerCount, kPattern);
  const bool slides = keys.integer("attention.sliding_window", {0, kPositionCount.last}, 0) > 0;
  nlohmann::json layer_types = nlohmann::json::array();
  for (int64_t layer = 0; layer < num_layers; ++layer)
    layer_types.push_back(slides && (layer + 1) % pattern != 0 ? kGemma3Slides : kGemma3SeesAll);
  config["layer_types"] = layer_types;
  config["sliding_window"] = slides ? keys.integer("attention.sliding_window", kPositionCount) : 1;
  config["rope_local_base_freq"] = keys.number("rope.freq_base_swa", kThetaOfWindows);
  config["intermediate_size"] = keys.integer("feed_forward_length", kWidth);
  config["query_pre_attn_scalar"] = num_layers == kLayersOf27b ? width : head_dim;
  config["final_logit_softcapping"] = keys.number("final_logit_softcapping", 0.0);
  return config;
}

LayerTensorNames gemma3_gguf_layer(int64_t layer) {
  LayerTensorNames names = gguf_layer(layer);
  names.post_attn_norm = fmt::format("blk.{}.post_attention_norm", layer);
  names.post_ffn_norm = fmt::format("blk.{}.post_ffw_norm", layer);
  return names;
}

}  // namespace

FamilyEntry gemma3_family() {
  return {.name = "gemma3",
          .architecture = "Gemma3ForCausalLM",
          .read_config = read_gemma3,
          .tensors = transformers_tensors(gemma3_layer),
          .gguf = GgufDialect{.architecture = "gemma3",
                              .read_config = read_gemma3_gguf,
                              .layer = gemma3_gguf_layer,
                              .adds_one_to_norms = true},
          .harmless_keys = {"_sliding_window_pattern", "cache_implementation", "sliding_window_pattern"},
          .model_types = {"gemma3_text"},
          .is_library_class = true};
}

}  // namespace lacuna
