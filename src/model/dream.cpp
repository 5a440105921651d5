// Dream v0 7B Base and Instruct, and what was trained from them under the same class (Ye et al. 2025;
// DreamModel). Qwen2.5's block without the causal mask. Trained from a left-to-right model, it kept the
// shift: row i - 1 predicts position i.
#include "model/family_parts.h"

namespace lacuna {
namespace {

ModelConfig read_dream(const JsonObject& json) {
  json.expect("hidden_act", "silu");
  json.expect("use_sliding_window", false);
  json.expect("use_mrope", false);
  json.expect_absent("rope_scaling");
  ModelConfig config = read_transformers_sizes(json);
  config.ffn_dim = json.integer("intermediate_size", kWidth);
  config.rope.theta = json.number("rope_theta", kRopeTheta);
  config.head_dim = read_head_dim(json, config);
  config.qkv_bias = true;
  config.shifted_logits = true;
  config.mask_id = read_token_id(json, "mask_token_id", config);
  return config;
}

}  // namespace

FamilyEntry dream_family() {
  return {Family::kDream, "dream", "DreamModel", read_dream, transformers_tensors(transformers_layer)};
}

}  // namespace lacuna
