// LLaDA2.0 and 2.1, mini (16B) and flash (100B) (inclusionAI 2025; LLaDA2MoeModelLM): block diffusion on the
// experts of Ling 2.0. What sets the block apart: q, k and v are one matrix, RoPE turns the first half of
// each head alone, the first layer is dense, and the router scores with sigmoids, chooses within the best
// groups of experts, and is corrected by a bias that does not reach the weights. Reference: models/llada2_moe
// of inclusionAI/dFactory. Neither the mask nor the block length is in the published config.json.
#include <fmt/format.h>

#include "model/family_parts.h"

namespace lacuna {
namespace {

void check_llada2(const JsonObject& json) {
  json.expect("hidden_act", "silu");
  json.expect("use_rmsnorm", true);
  json.expect("use_sliding_window", false);
  json.expect_absent("rope_scaling");
  json.expect("norm_head", false);
  json.expect("norm_softmax", false);
  json.expect("using_split_qkv_in_self_attention", false);
  json.expect("score_function", "sigmoid");
  json.expect("norm_topk_prob", true);
  json.expect("router_dtype", "fp32");
}

/// `partial_rotary_factor` decides, as in the reference; `rotary_dim` may only repeat it.
int64_t read_rotary_dim(const JsonObject& json, const ModelConfig& config) {
  const float factor = json.number("partial_rotary_factor", {0, 1}, 0.5F);
  const auto dim = static_cast<int64_t>(static_cast<float>(config.head_dim) * factor);
  if (json.integer("rotary_dim", kWidth, dim) != dim) {
    json.refuse("rotary_dim", fmt::format("{}, as \"partial_rotary_factor\" says", dim));
  }
  return dim;
}

MoeConfig read_experts(const JsonObject& json) {
  MoeConfig moe;
  moe.num_experts = json.integer("num_experts", kExpertCount);
  moe.experts_per_token = json.integer("num_experts_per_tok", {1, moe.num_experts});
  moe.expert_ffn_dim = json.integer("moe_intermediate_size", kWidth);
  moe.normalize_weights = moe.experts_per_token > 1;  // the reference leaves a single one as it is
  moe.sigmoid_scores = true;
  moe.router_in_f32 = true;
  moe.selection_bias = json.flag("moe_router_enable_expert_bias", true);
  moe.routed_scale = json.number("routed_scaling_factor", {1e-6, 1e6}, 2.5F);
  moe.shared_ffn_dim = json.integer("num_shared_experts", {0, kExpertCount.last}, 0) * moe.expert_ffn_dim;
  moe.first_dense_layers = json.integer("first_k_dense_replace", {0, kLayerCount.last}, 0);

  moe.num_groups = json.integer("n_group", {1, moe.num_experts}, 8);
  // A group is judged by its two best experts.
  if (moe.num_experts % moe.num_groups != 0 || moe.num_experts / moe.num_groups < 2) {
    json.refuse("n_group", fmt::format("a divisor of the {} experts that leaves at least 2 in a group",
                                       moe.num_experts));
  }
  moe.groups_per_token = json.integer("topk_group", {1, moe.num_groups}, 4);
  if (moe.groups_per_token * (moe.num_experts / moe.num_groups) < moe.experts_per_token) {
    json.refuse("topk_group", fmt::format("groups with {} experts or more", moe.experts_per_token));
  }
  return moe;
}

ModelConfig read_llada2(const JsonObject& json) {
  check_llada2(json);
  ModelConfig config = read_transformers_sizes(json);
  config.head_dim = read_head_dim(json, config);
  config.rope.theta = json.number("rope_theta", kRopeTheta);
  config.rotary_dim = read_rotary_dim(json, config);
  config.moe = read_experts(json);
  if (config.moe.first_dense_layers > 0) config.ffn_dim = json.integer("intermediate_size", kWidth);
  config.qk_norm_per_head = true;
  config.qkv_bias = json.flag("use_qkv_bias", false);
  config.attn_output_bias = json.flag("use_bias", true);
  config.block_causal = true;
  const char* const block_key = json.has("block_length") ? "block_length" : "block_size";
  config.block_length = json.integer(block_key, kPositionCount, 32);
  config.mask_id = read_token_id(json, "mask_token_id", config, -1);
  config.eos_id = read_token_id(json, "pad_token_id", config, -1);  // <|endoftext|> is both
  return config;
}

LayerTensorNames name_llada2_layer(int64_t layer) {
  LayerTensorNames names = transformers_layer(layer);
  const std::string prefix = fmt::format("model.layers.{}.", layer);
  names.q = names.k = names.v = "";
  names.qkv = prefix + "attention.query_key_value";
  names.o = prefix + "attention.dense";
  names.q_norm = prefix + "attention.query_layernorm";
  names.k_norm = prefix + "attention.key_layernorm";
  names.router = prefix + "mlp.gate";
  names.expert_bias = prefix + "mlp.gate.expert_bias";
  names.shared = {.gate = prefix + "mlp.shared_experts.gate_proj",
                  .up = prefix + "mlp.shared_experts.up_proj",
                  .down = prefix + "mlp.shared_experts.down_proj"};
  return names;
}

}  // namespace

FamilyEntry llada2_family() {
  TensorNames tensors = transformers_tensors(name_llada2_layer);
  tensors.embedding = "model.word_embeddings";
  tensors.expert = transformers_expert;
  return {Family::kLlada2, "llada2", "LLaDA2MoeModelLM", read_llada2, tensors};
}

}  // namespace lacuna
