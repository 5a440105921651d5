// LLaDA-MoE 7B-A1B (inclusionAI 2025; LLaDAMoEModelLM). OLMoE's block: every feed-forward layer has 64
// experts, of which the router picks 8, weighted by their unnormalized softmax probability; q and k are
// normed per head. Its model_type is "llada" as well, so only `architectures` tells it from the dense model.
#include <fmt/format.h>

#include "model/family_parts.h"
#include "model/gguf_keys.h"

namespace lacuna {
namespace {

constexpr TokenId kPublishedMask = 156895;  // hardcoded by converters; files may lack it

void check_llada_moe(const JsonObject& json) {
  expect_silu(json);
  json.expect("attention_bias", false);
  json.expect_each("moe_layer_freq", 1);  // every layer has experts
  json.expect("shared_expert_intermediate_size", 0);
  json.expect("moe_router_enable_expert_bias", false);
  json.expect("moe_router_score_function", "softmax");
  json.expect("routed_scaling_factor", 1);
  json.expect("router_num_group", 1);
  json.expect("router_topk_group", 1);
}

ModelConfig read_llada_moe(const JsonObject& json) {
  check_llada_moe(json);
  ModelConfig config = read_transformers_sizes(json);
  config.head_dim = read_head_dim(json, config);
  set_rope(json, config);
  config.moe.num_experts = json.integer("num_experts", kExpertCount);
  config.moe.experts_per_token = json.integer("num_experts_per_tok", {1, config.moe.num_experts});
  config.moe.expert_ffn_dim = json.integer("expert_intermediate_size", kWidth);
  config.moe.normalize_weights = false;  // the published code ignores norm_topk_prob
  config.qk_norm_per_head = json.flag("qk_layernorm");
  if (json.has("clip_qkv")) config.qkv_clip = json.number("clip_qkv", {1e-6, 1e6});
  config.mask_id = read_token_id(json, "mask_token_id", config, -1);
  return config;
}

LayerTensorNames name_llada_moe_layer(int64_t layer) {
  LayerTensorNames names = transformers_layer_with_qk_norm(layer);
  names.router = fmt::format("model.layers.{}.mlp.gate", layer);
  return names;
}

nlohmann::json read_llada_moe_gguf(const GgufKeys& keys) {
  nlohmann::json config = gguf_sizes(keys, "LLaDAMoEModelLM");
  config["num_experts"] = keys.integer("expert_count", kExpertCount);
  config["num_experts_per_tok"] = keys.integer("expert_used_count", kExpertCount);
  config["expert_intermediate_size"] = keys.integer("expert_feed_forward_length", kWidth);
  constexpr int64_t kSoftmaxGating = 1;
  keys.integer("expert_gating_func", {kSoftmaxGating, kSoftmaxGating}, kSoftmaxGating);
  keys.expect("expert_weights_norm", false);
  config["qk_layernorm"] = keys.file().find("blk.0.attn_q_norm.weight") != nullptr;
  return config;
}

}  // namespace

FamilyEntry llada_moe_family() {
  TensorNames tensors = transformers_tensors(name_llada_moe_layer);
  tensors.expert = transformers_expert;
  return {
      .name = "llada-moe",
      .architecture = "LLaDAMoEModelLM",
      .read_config = read_llada_moe,
      .tensors = tensors,
      .mask_texts = {"<|mask|>"},
      .published_masks = {PublishedMask{kPublishedMask, 157184}},
      .default_unmask = "low-confidence",
      .gguf = GgufDialect{.architecture = "llada-moe",
                          .published_mask = kPublishedMask,
                          .read_config = read_llada_moe_gguf,
                          .layer = gguf_layer},
      // The published code ignores these keys: experts' weights are not normalized, and no layer is dense.
      .harmless_keys = {"dense_intermediate_size", "intermediate_size", "norm_topk_prob"},
      .model_types = {"llada", "llada_moe", "lladamoe"},
      .published = {PublishedConfig{"llada-moe-7b", R"({"architectures": ["LLaDAMoEModelLM"],
      "hidden_size": 2048, "expert_intermediate_size": 1024, "num_experts": 64, "num_experts_per_tok": 8,
      "num_hidden_layers": 16, "num_attention_heads": 16, "num_key_value_heads": 16, "qk_layernorm": true,
      "vocab_size": 157184, "tie_word_embeddings": false, "max_position_embeddings": 8192,
      "rope_theta": 50000, "rms_norm_eps": 1e-05,
      "mask_token_id": 156895, "eos_token_id": 156892, "pad_token_id": 156892})"}}};
}

}  // namespace lacuna
