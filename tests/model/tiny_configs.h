// Configs of small models, for tests and fuzz targets.
#pragma once

#include <cstdint>
#include <vector>

#include "model/config.h"

namespace lacuna {

/// A tiny config of each kind, with sizes that are not multiples of anything: widths of heads that do not add
/// up to the hidden width, odd vocabularies and feed-forward widths, one layer, shared K/V heads.
inline std::vector<ModelConfig> tiny_configs() {
  ModelConfig plain;
  plain.family = "llada";
  plain.num_layers = 2;
  plain.hidden_dim = 36;
  plain.num_heads = 3;
  plain.num_kv_heads = 3;
  plain.head_dim = 12;
  plain.ffn_dim = 45;
  plain.vocab_size = 97;
  plain.max_positions = 4096;
  plain.norm_eps = 1e-5F;
  plain.mask_id = 90;
  plain.eos_id = 89;
  plain.end_ids = {88, 89};

  ModelConfig scaled = plain;  // every multiplier and clamp that a family may ask for
  scaled.qk_norm_full = true;
  scaled.embedding_scale = 1.5F;
  scaled.logit_scale = 0.75F;
  scaled.qkv_clip = 1.25F;
  scaled.num_kv_heads = 1;

  ModelConfig experts = plain;
  experts.family = "llada-moe";
  experts.hidden_dim = 40;
  experts.num_heads = 2;
  experts.num_kv_heads = 1;
  experts.head_dim = 14;
  experts.ffn_dim = 0;
  experts.moe = {7, 3, 21, false};
  experts.qk_norm_per_head = true;

  ModelConfig normalized_experts = experts;
  normalized_experts.moe.normalize_weights = true;
  normalized_experts.num_layers = 1;

  ModelConfig dream = plain;
  dream.family = "dream";
  dream.num_layers = 1;
  dream.hidden_dim = 28;
  dream.num_heads = 4;
  dream.num_kv_heads = 2;
  dream.head_dim = 10;
  dream.vocab_size = 131;
  dream.qkv_bias = true;
  dream.shifted_logits = true;

  ModelConfig qwen2 = dream;
  qwen2.family = "qwen2";
  qwen2.num_layers = 3;
  qwen2.shifted_logits = false;
  qwen2.tied_embeddings = true;
  qwen2.causal = true;
  qwen2.mask_id = -1;

  ModelConfig qwen3 = qwen2;
  qwen3.family = "qwen3";
  qwen3.qkv_bias = false;
  qwen3.qk_norm_per_head = true;
  qwen3.attn_output_bias = true;
  qwen3.tied_embeddings = false;
  qwen3.head_dim = 16;

  ModelConfig grouped_experts = experts;  // every way in which LLaDA2's layers differ
  grouped_experts.family = "llada2";
  grouped_experts.num_layers = 3;
  grouped_experts.num_heads = 4;
  grouped_experts.num_kv_heads = 2;
  grouped_experts.rotary_dim = 6;
  grouped_experts.ffn_dim = 45;
  grouped_experts.qkv_bias = true;
  grouped_experts.block_causal = true;
  grouped_experts.block_length = 8;
  grouped_experts.moe = {.num_experts = 12,
                         .experts_per_token = 3,
                         .expert_ffn_dim = 21,
                         .normalize_weights = true,
                         .sigmoid_scores = true,
                         .selection_bias = true,
                         .num_groups = 4,
                         .groups_per_token = 2,
                         .routed_scale = 2.5F,
                         .shared_ffn_dim = 17,
                         .first_dense_layers = 1,
                         .router_in_f32 = true};
  return {plain, scaled, experts, normalized_experts, dream, qwen2, qwen3, grouped_experts};
}

/// A ReFusion model: a causal one that plans slots with mask tokens. Its logits are so
/// flat that a row finds some of the drafts of another likely.
inline ModelConfig tiny_refusion_config() {
  ModelConfig config = tiny_configs()[6];
  config.num_layers = 2;
  config.plans_slots = true;
  config.mask_id = 90;
  config.logit_scale = 0.5F;
  return config;
}

/// A block diffusion model that is otherwise the one above, with layers enough for two to be sparse.
inline ModelConfig tiny_block_config(int32_t block_length) {
  ModelConfig config = tiny_refusion_config();
  config.family = "sdar";
  config.causal = false;
  config.plans_slots = false;
  config.block_causal = true;
  config.block_length = block_length;
  config.num_layers = 4;
  config.max_positions = 512;
  return config;
}

/// LLaDA or Dream as D2F trains them: block-causal behind a prompt that is one block.
inline ModelConfig tiny_d2f_config(int32_t block_length, bool of_dream = false) {
  ModelConfig config = tiny_configs()[of_dream ? 4 : 0];
  config.block_causal = config.whole_prompt = true;
  config.block_length = block_length;
  return config;
}

/// A GIDD model with everything that sets its transformer apart.
inline ModelConfig tiny_gidd_config(float uniform_shift, int64_t max_positions = 4096) {
  ModelConfig config = tiny_configs()[0];
  config.family = "gidd";
  config.max_positions = max_positions;
  config.norm_offset = true;
  config.qk_norm_full = true;
  config.kv_sink = true;
  config.attn_soft_cap = 5;
  config.activation = Activation::kSquaredRelu;
  config.ffn_bias = true;
  config.residual_scale = 2;
  config.logit_scale = 0.5F;
  config.noise = NoiseProcess{uniform_shift, -9, 9};
  return config;
}

/// A Sumi model: all that follows the prompt is denoised at once.
inline ModelConfig tiny_sumi_config(int64_t canvas = 64) {
  ModelConfig config = tiny_configs()[0];
  config.family = "sumi";
  config.max_positions = 4096;
  config.zero_sink = true;
  config.mask_id = -1;
  config.bos_id = 88;
  config.noise = NoiseProcess{1000, -9, 9, WholeCanvas{canvas, 6}};
  return config;
}

/// A LLaDA 2.2 model: positions share experts in windows, and tokens are deleted and split.
inline ModelConfig tiny_editing_config() {
  ModelConfig config = tiny_configs()[7];
  config.moe.num_groups = config.moe.groups_per_token = 1;
  config.moe.window = 8;
  config.moe.experts_per_window = 6;
  config.delete_id = 91;
  config.split_id = 92;
  return config;
}

/// A Nemotron-Labs-Diffusion model, whose queries grow within a few positions.
inline ModelConfig tiny_nemotron_config(int32_t block_length = 8) {
  ModelConfig config = tiny_configs()[0];
  config.family = "nemotron-labs-diffusion";
  config.rope.original_positions = 8;
  config.rope.query_growth = 0.5F;
  config.block_causal = true;
  config.block_length = block_length;
  config.causal_context = true;
  return config;
}

/// The same weights read from left to right.
inline ModelConfig tiny_nemotron_causal_config() {
  ModelConfig config = tiny_nemotron_config();
  config.block_causal = config.causal_context = false;
  config.block_length = 0;
  config.causal = true;
  config.mask_id = -1;
  return config;
}

/// A DiffusionGemma model with everything that sets its transformer apart. Its last layer slides, so that a
/// window acts where the last layer leaves rows behind.
inline ModelConfig tiny_canvas_config() {
  ModelConfig config = tiny_configs()[2];
  config.family = "diffusion-gemma";
  config.num_layers = 3;
  config.num_heads = 4;
  config.num_kv_heads = 1;
  config.head_dim = 20;
  config.ffn_dim = 45;
  config.max_positions = 4096;
  config.mask_id = -1;
  config.tied_embeddings = true;
  config.moe = {7, 3, 21, true};
  config.moe.router_in_f32 = true;
  config.moe.parallel_dense = true;
  config.activation = Activation::kGeluTanh;
  config.embedding_scale = 6.3245554F;
  config.rounds_embedding_scale = true;
  config.rope.theta = 1000;
  config.rope.num_rotated_pairs = 3;
  SlidingAttention& sliding = config.sliding.emplace();
  sliding.layers = {true, false, true};
  sliding.window = 7;
  sliding.num_kv_heads = 2;
  sliding.head_dim = 12;
  sliding.rope.theta = 100;
  config.shares_keys = true;
  config.v_norm = true;
  config.attn_scale = 1;
  config.norms_outputs = true;
  config.layer_scalars = true;
  config.logit_soft_cap = 30;
  config.canvas = CanvasConfig{.length = 8, .conditioning_dim = 33, .steps = 6, .image_id = 91};
  return config;
}

}  // namespace lacuna
