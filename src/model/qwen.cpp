// Qwen2, Qwen2.5 and Qwen3, dense: the left-to-right models that guide and verify, and the backbone of
// ReFusion, whose config is Qwen3's with a mask token. Qwen2 adds biases to q, k and v; Qwen3 norms q and k
// per head. Two block-diffusion models have a block-causal mask instead of the causal one: SDAR
// (JetAstra/SDAR) is Qwen3 and predicts every position in its own row; Fast-dLLM v2 (NVlabs/Fast-dLLM, v2) is
// Qwen2.5 and, as Qwen2.5 was trained, predicts it in the row before.
#include <algorithm>
#include <cmath>

#include "model/family_parts.h"

namespace lacuna {
namespace {

/// Yarn's keys, all explicit: library versions derive missing ones differently.
void read_yarn(const JsonObject& scaling, RopeConfig& rope) {
  scaling.expect("truncate", true);
  scaling.expect_absent("mscale");
  scaling.expect_absent("mscale_all_dim");
  rope.original_positions = scaling.integer("original_max_position_embeddings", kPositionCount);
  rope.beta_fast = scaling.number("beta_fast", {1e-3, 1e6}, rope.beta_fast);
  rope.beta_slow = scaling.number("beta_slow", {1e-3, 1e6}, rope.beta_slow);
  rope.attention_scaling = scaling.number("attention_factor", {1e-3, 1e3}, 0.1F * std::log(rope.factor) + 1);
}

/// `scaling` is "rope_scaling", or "rope_parameters" of newer files, which may hold theta as well.
void read_scaling(const JsonObject& scaling, RopeConfig& rope) {
  scaling.expect("partial_rotary_factor", 1);
  rope.theta = scaling.number("rope_theta", kRopeTheta, rope.theta);
  const char* const type_key = scaling.has("rope_type") ? "rope_type" : "type";
  const std::string type = scaling.text(type_key, "default");
  if (type == "default") return;
  if (type != "linear" && type != "yarn") scaling.refuse(type_key, "\"default\", \"linear\" or \"yarn\"");
  rope.factor = scaling.number("factor", {1, 1e6});
  rope.scaling = type == "linear" ? RopeConfig::Scaling::kLinear : RopeConfig::Scaling::kYarn;
  if (type == "yarn") read_yarn(scaling, rope);
}

RopeConfig read_rope(const JsonObject& json) {
  RopeConfig rope;
  const bool has_parameters = json.has("rope_parameters");
  if (!has_parameters || !json.object("rope_parameters").has("rope_theta")) {
    rope.theta = json.number("rope_theta", kRopeTheta);
  }
  if (has_parameters) {
    read_scaling(json.object("rope_parameters"), rope);
  } else if (json.has("rope_scaling")) {
    read_scaling(json.object("rope_scaling"), rope);
  }
  return rope;
}

ModelConfig read_qwen(const JsonObject& json) {
  json.expect("hidden_act", "silu");
  json.expect("use_sliding_window", false);
  json.expect_each("layer_types", "full_attention");
  json.expect("partial_rotary_factor", 1);
  ModelConfig config = read_transformers_sizes(json);
  config.ffn_dim = json.integer("intermediate_size", kWidth);
  config.rope = read_rope(json);
  config.causal = true;
  config.mask_id = read_token_id(json, "mask_token_id", config, -1);
  config.plans_slots = config.mask_id >= 0;
  return config;
}

ModelConfig read_qwen2(const JsonObject& json) {
  ModelConfig config = read_qwen(json);
  config.head_dim = read_head_dim(json, config);
  config.qkv_bias = true;
  return config;
}

ModelConfig read_qwen3(const JsonObject& json) {
  ModelConfig config = read_qwen(json);
  config.head_dim = json.integer("head_dim", kWidth, 128);
  config.qk_norm_per_head = true;
  config.qkv_bias = json.flag("attention_bias", false);
  config.attn_output_bias = config.qkv_bias;
  return config;
}

void turn_block_causal(ModelConfig& config, int64_t block_length) {
  config.causal = false;
  config.plans_slots = false;
  config.block_causal = true;
  config.block_length = block_length;
}

ModelConfig read_sdar(const JsonObject& json) {
  ModelConfig config = read_qwen3(json);
  constexpr int64_t kUsualBlock = 4;  // the published checkpoints on the hub do not say
  turn_block_causal(config, json.integer("block_size", kPositionCount, kUsualBlock));
  return config;
}

ModelConfig read_fast_dllm(const JsonObject& json) {
  ModelConfig config = read_qwen2(json);
  turn_block_causal(config, json.integer("bd_size", kPositionCount, 32));
  config.shifted_logits = true;
  // No published file has it: small_block_size is an argument of the published sampler, whose users pass 8.
  const Range<int64_t> up_to_block{1, config.block_length};
  config.sub_block_length =
      json.integer("small_block_size", up_to_block, std::min<int64_t>(8, config.block_length));
  return config;
}

}  // namespace

FamilyEntry qwen2_family() {
  return {Family::kQwen2, "qwen2", "Qwen2ForCausalLM", read_qwen2, transformers_tensors(transformers_layer)};
}

FamilyEntry qwen3_family() {
  return {Family::kQwen3, "qwen3", "Qwen3ForCausalLM", read_qwen3,
          transformers_tensors(transformers_layer_with_qk_norm)};
}

FamilyEntry sdar_family() {
  return {Family::kSdar, "sdar", "SDARForCausalLM", read_sdar,
          transformers_tensors(transformers_layer_with_qk_norm)};
}

FamilyEntry fast_dllm_family() {
  return {Family::kFastDllm, "fast-dllm", "Fast_dLLM_QwenForCausalLM", read_fast_dllm,
          transformers_tensors(transformers_layer)};
}

}  // namespace lacuna
