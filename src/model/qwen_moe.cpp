// Qwen3 with experts in every feed-forward layer (Qwen3-30B-A3B; Qwen3MoeForCausalLM), and two diffusion
// models made from it: SDAR-30B-A3B (JetAstra/SDAR; SDARMoeForCausalLM), block diffusion as in qwen.cpp, and
// RND1 (RadicalNumerics/RND1; RND1LM), whose rows attend to the whole canvas and predict the position after
// their own. The router's softmax is over all experts; "norm_topk_prob" rescales the chosen experts'
// probabilities to sum to 1.
#include "model/family_parts.h"
#include "model/gguf_keys.h"

namespace lacuna {
namespace {

MoeConfig read_qwen_experts(const JsonObject& json) {
  json.expect("decoder_sparse_step", 1);  // every layer has experts
  json.expect("shared_expert_intermediate_size", 0);
  if (json.has("mlp_only_layers") && !json.integers("mlp_only_layers", {0, kLayerCount.last}).empty()) {
    json.refuse("mlp_only_layers", "an empty list: experts in every layer");
  }
  MoeConfig moe;
  moe.num_experts = json.integer("num_experts", kExpertCount);
  moe.experts_per_token = json.integer("num_experts_per_tok", {1, moe.num_experts});
  moe.expert_ffn_dim = json.integer("moe_intermediate_size", kWidth);
  moe.normalize_weights = json.flag("norm_topk_prob", false);
  return moe;
}

ModelConfig read_qwen3_moe(const JsonObject& json) {
  json.expect_absent("mask_token_id");  // a diffusion model under a borrowed class
  ModelConfig config = read_qwen3_attention(json);
  config.moe = read_qwen_experts(json);
  return config;
}

ModelConfig read_sdar_moe(const JsonObject& json) {
  ModelConfig config = read_qwen3_attention(json);
  config.moe = read_qwen_experts(json);
  config.moe.normalize_weights = json.flag("norm_topk_prob");  // required: engines' defaults differ
  turn_into_sdar(json, config);
  return config;
}

ModelConfig read_rnd1(const JsonObject& json) {
  expect_silu(json);
  json.expect("use_sliding_window", false);
  json.expect("attention_bias", false);
  ModelConfig config = read_transformers_sizes(json);
  config.head_dim = json.integer("head_dim", kWidth, 128);
  set_rope(json, config);
  config.qk_norm_per_head = true;
  config.moe = read_qwen_experts(json);
  config.shifted_logits = true;
  config.mask_id = read_token_id(json, "mask_token_id", config, -1);
  config.diffusion_steps = static_cast<int32_t>(json.integer("num_diffusion_steps", {1, 1 << 20}, 256));
  return config;
}

nlohmann::json read_qwen3_moe_gguf(const GgufKeys& keys) {
  nlohmann::json config = gguf_sizes(keys, "Qwen3MoeForCausalLM");
  config["num_experts"] = keys.integer("expert_count", kExpertCount);
  config["num_experts_per_tok"] = keys.integer("expert_used_count", kExpertCount);
  config["moe_intermediate_size"] = keys.integer("expert_feed_forward_length", kWidth);
  config["norm_topk_prob"] = true;  // implied by the architecture's name
  keys.expect("expert_weights_norm", true);
  keys.integer("expert_shared_count", {0, 0}, 0);
  constexpr int64_t kSoftmaxGating = 1;
  keys.integer("expert_gating_func", {kSoftmaxGating, kSoftmaxGating}, kSoftmaxGating);
  return config;
}

constexpr std::string_view kQwen3MoeWith30b = R"({"architectures": ["Qwen3MoeForCausalLM"], "head_dim": 128,
    "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4,
    "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768, "norm_topk_prob": true,
    "vocab_size": 151936, "tie_word_embeddings": false, "max_position_embeddings": 40960,
    "rope_theta": 1000000.0, "rms_norm_eps": 1e-06, "bos_token_id": 151643, "eos_token_id": [151645, 151643]})";

// Have no effect: there are no dense layers, and "use_sliding_window" must be false.
constexpr std::string_view kHarmlessQwen3Moe[] = {"intermediate_size", "sliding_window"};
constexpr PublishedMask kPublishedQwen3Masks[] = {{151669, 151936}};

TensorNames qwen_moe_tensors() {
  TensorNames tensors = transformers_tensors(transformers_layer_with_experts);
  tensors.expert = transformers_expert;
  return tensors;
}

}  // namespace

FamilyEntry qwen3_moe_family() {
  return {
      .name = "qwen3-moe",
      .architecture = "Qwen3MoeForCausalLM",
      .read_config = read_qwen3_moe,
      .tensors = qwen_moe_tensors(),
      .gguf =
          GgufDialect{.architecture = "qwen3moe", .read_config = read_qwen3_moe_gguf, .layer = gguf_layer},
      .harmless_keys = {std::begin(kHarmlessQwen3Moe), std::end(kHarmlessQwen3Moe)},
      .model_types = {"qwen3_moe"},
      .is_library_class = true,
      .published = {PublishedConfig{"qwen3-30b-a3b", kQwen3MoeWith30b}}};
}

FamilyEntry sdar_moe_family() {
  return {.name = "sdar-moe",
          .architecture = "SDARMoeForCausalLM",
          .read_config = read_sdar_moe,
          .tensors = qwen_moe_tensors(),
          .mask_texts = {"<|MASK|>", "<MASK>"},
          .published_masks = {std::begin(kPublishedQwen3Masks), std::end(kPublishedQwen3Masks)},
          .default_unmask = "low-confidence",
          .harmless_keys = {std::begin(kHarmlessQwen3Moe), std::end(kHarmlessQwen3Moe)},
          .model_types = {"sdar_moe"},
          // Unverified except the sizes of the layers; the rest is SDAR's.
          .published = {
              PublishedConfig{"sdar-30b-a3b", kQwen3MoeWith30b, R"({"architectures": ["SDARMoeForCausalLM"],
      "max_position_embeddings": 32768, "block_size": 4, "mask_token_id": 151669})"}}};
}

FamilyEntry rnd1_family() {
  return {.name = "rnd1",
          .architecture = "RND1LM",
          .read_config = read_rnd1,
          .tensors = qwen_moe_tensors(),
          .mask_texts = {"<|mask|>"},
          .published_masks = {std::begin(kPublishedQwen3Masks), std::end(kPublishedQwen3Masks)},
          .default_unmask = "entropy",
          .harmless_keys = {std::begin(kHarmlessQwen3Moe), std::end(kHarmlessQwen3Moe)},
          .model_types = {"rnd1"},
          .published = {PublishedConfig{"rnd1-30b-a3b", R"({"architectures": ["RND1LM"], "head_dim": 128,
      "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4,
      "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768, "norm_topk_prob": true,
      "vocab_size": 151936, "tie_word_embeddings": false, "max_position_embeddings": 40960,
      "rope_theta": 1000000.0, "rms_norm_eps": 1e-06,
      "mask_token_id": 151669, "eos_token_id": 151645, "pad_token_id": 151643})"}}};
}

}  // namespace lacuna
