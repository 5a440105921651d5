// LLaDA2.0 to 2.2, mini (16B) and flash (100B) (inclusionAI 2025; LLaDA2MoeModelLM): block diffusion on the
// experts of Ling 2.0. q, k and v are one matrix, RoPE rotates only the first half of each head, and the
// first layer is dense. The router scores with sigmoids and chooses within the best groups of experts, with a
// bias that does not enter the weights. Reference: models/llada2_moe of inclusionAI/dFactory. The published
// config.json lacks the mask and the block length.
#include <fmt/format.h>

#include "model/family_parts.h"
#include "model/gguf_keys.h"

namespace lacuna {
namespace {

void check_llada2(const JsonObject& json) {
  expect_silu(json);
  json.expect("use_rmsnorm", true);
  json.expect("use_sliding_window", false);
  json.expect("norm_head", false);
  json.expect("norm_softmax", false);
  json.expect("using_split_qkv_in_self_attention", false);
  json.expect("score_function", "sigmoid");
  json.expect("norm_topk_prob", true);
  json.expect("router_dtype", "fp32");
  json.expect("use_qk_norm", true);
}

/// Reads LLaDA2.2's editing tokens, both or neither. LLaDA2.0 and 2.1, which choose experts by groups, have
/// none.
void read_edit_tokens(const JsonObject& json, ModelConfig& config) {
  config.delete_id = read_token_id(json, "delete_token_id", config, -1);
  config.split_id = read_token_id(json, "split_token_id", config, -1);
  if (config.moe.experts_per_window == 0 && (config.delete_id >= 0 || config.split_id >= 0)) {
    json.refuse(
        "expert_capacity",
        fmt::format("an integer from {} to {}, because the file has LLaDA2.2's \"{}\"; groups of experts "
                    "are LLaDA2.0's",
                    config.moe.experts_per_token, config.moe.num_experts,
                    config.delete_id >= 0 ? "delete_token_id" : "split_token_id"));
  }
  if (config.delete_id >= 0 && config.split_id < 0) json.refuse("split_token_id", "a token as well");
  if (config.split_id >= 0 && config.delete_id < 0) json.refuse("delete_token_id", "a token as well");
  if (config.split_id >= 0 && config.split_id == config.delete_id)
    json.refuse("split_token_id", "another token than \"delete_token_id\"");
}

/// `partial_rotary_factor` is decisive, as in the reference; `rotary_dim` must agree.
void read_rotation(const JsonObject& json, ModelConfig& config) {
  set_rope(json, config, {.usual_share = 0.5F, .allows_partial_rotation = true});
  if (json.integer("rotary_dim", kWidth, config.rotary_dim) != config.rotary_dim) {
    json.refuse("rotary_dim", fmt::format("{}, as \"partial_rotary_factor\" says", config.rotary_dim));
  }
}

MoeConfig read_experts(const JsonObject& json) {
  MoeConfig moe;
  moe.num_experts = json.integer("num_experts", kExpertCount);
  moe.experts_per_token = json.integer("num_experts_per_tok", {1, moe.num_experts});
  moe.expert_ffn_dim = json.integer("moe_intermediate_size", kWidth);
  moe.normalize_weights = moe.experts_per_token > 1;  // the reference keeps a single weight
  moe.sigmoid_scores = true;
  moe.router_in_f32 = true;
  moe.selection_bias = json.flag("moe_router_enable_expert_bias", true);
  moe.routed_scale = json.number("routed_scaling_factor", {1e-6, 1e6}, 2.5F);
  moe.shared_ffn_dim = json.integer("num_shared_experts", {0, kExpertCount.last}, 0) * moe.expert_ffn_dim;
  moe.first_dense_layers = json.integer("first_k_dense_replace", {0, kLayerCount.last}, 0);

  // LLaDA2.2: rows of a window share experts; groups in the file are ignored.
  moe.experts_per_window = json.integer("expert_capacity", {0, moe.num_experts}, 0);
  if (moe.experts_per_window > 0) {
    if (moe.experts_per_window < moe.experts_per_token)
      json.refuse("expert_capacity", fmt::format("{} to {}", moe.experts_per_token, moe.num_experts));
    moe.window = json.integer("block_size", kPositionCount, 32);
    for (const char* ignored : {"n_group", "topk_group"}) json.integer(ignored, {0, kExpertCount.last}, 0);
    return moe;
  }

  if (says_its_name(json, "llada2.2") || folder_says_its_name(json, "llada2.2"))
    json.refuse("expert_capacity", "that of LLaDA2.2, as the name says; groups of experts are LLaDA2.0's");

  moe.num_groups = json.integer("n_group", {1, moe.num_experts}, 8);
  // A group's score is the sum of its two best experts' scores.
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

/// In LLaDA2.2, "block_size" applies only to windows.
int64_t read_block_length(const JsonObject& json, int64_t window) {
  constexpr int64_t kUsual = 32;
  if (window == 0) {
    const char* const key = json.has("block_length") ? "block_length" : "block_size";
    return json.integer(key, kPositionCount, kUsual);
  }
  const int64_t length =
      json.integer("block_length", kPositionCount, (kUsual + window - 1) / window * window);
  if (length % window != 0)
    json.refuse("block_length", fmt::format("a multiple of \"block_size\" {}", window));
  return length;
}

ModelConfig read_llada2(const JsonObject& json) {
  check_llada2(json);
  ModelConfig config = read_transformers_sizes(json);
  config.head_dim = read_head_dim(json, config);
  read_rotation(json, config);
  config.moe = read_experts(json);
  read_edit_tokens(json, config);
  if (config.moe.first_dense_layers > 0) config.ffn_dim = json.integer("intermediate_size", kWidth);
  config.qk_norm_per_head = true;
  config.qkv_bias = json.flag("use_qkv_bias", false);
  config.attn_output_bias = json.flag("use_bias", true);
  config.block_causal = true;
  config.block_length = read_block_length(json, config.moe.window);
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

LayerTensorNames name_llada2_gguf_layer(int64_t layer) {
  LayerTensorNames names = gguf_layer(layer);
  names.q = names.k = names.v = "";
  names.qkv = fmt::format("blk.{}.attn_qkv", layer);
  return names;
}

/// Reads Ling 2.0's keys (llama.cpp's bailingmoe2), which LLaDA 2 uses under its own architecture name.
nlohmann::json read_llada2_gguf(const GgufKeys& keys) {
  const GgufFile& file = keys.file();
  nlohmann::json config = gguf_sizes(keys, "LLaDA2MoeModelLM");
  const auto head_dim = config["head_dim"].get<int64_t>();
  const int64_t rotary_dim = keys.integer("rope.dimension_count", {1, head_dim}, head_dim);
  config["rotary_dim"] = rotary_dim;
  // The added half compensates for rounding; truncation removes it.
  config["partial_rotary_factor"] =
      std::min(1.0, (static_cast<double>(rotary_dim) + 0.5) / static_cast<double>(head_dim));
  config["intermediate_size"] = keys.integer("feed_forward_length", kWidth);

  const int64_t experts = keys.integer("expert_count", kExpertCount);
  const int64_t expert_width = keys.integer("expert_feed_forward_length", kWidth);
  const int64_t shared = keys.integer("expert_shared_count", {0, kExpertCount.last}, 0);
  const int64_t dense_layers = keys.integer("leading_dense_block_count", {0, kLayerCount.last}, 0);
  const int64_t shared_width = shared * expert_width;
  keys.integer("expert_shared_feed_forward_length", {shared_width, shared_width}, shared_width);
  constexpr int64_t kSigmoidGating = 2;
  keys.integer("expert_gating_func", {kSigmoidGating, kSigmoidGating}, kSigmoidGating);
  keys.expect("expert_weights_norm", true);
  keys.integer("nextn_predict_layers", {0, 0}, 0);
  config["num_experts"] = experts;
  config["num_experts_per_tok"] = keys.integer("expert_used_count", {1, experts});
  config["moe_intermediate_size"] = expert_width;
  config["num_shared_experts"] = shared;
  config["first_k_dense_replace"] = dense_layers;
  config["n_group"] = keys.integer("expert_group_count", {1, experts}, 1);
  config["topk_group"] = keys.integer("expert_group_used_count", {1, experts}, 1);
  config["routed_scaling_factor"] = keys.number("expert_weights_scale");
  const std::string bias = gguf_layer(dense_layers).expert_bias;
  config["moe_router_enable_expert_bias"] = file.find(bias) != nullptr;
  config["use_qkv_bias"] = file.find("blk.0.attn_qkv.bias") != nullptr;
  config["use_bias"] = file.find("blk.0.attn_output.bias") != nullptr;
  if (file.has("diffusion.block_length"))
    config["block_length"] = file.integer("diffusion.block_length", kPositionCount);
  return config;
}

// LLaDA2.1 has the same keys and values as LLaDA2.0.
constexpr std::string_view kLlada2Mini = R"({"architectures": ["LLaDA2MoeModelLM"], "head_dim": 128,
    "hidden_size": 2048, "intermediate_size": 5120, "first_k_dense_replace": 1,
    "num_hidden_layers": 20, "num_attention_heads": 16, "num_key_value_heads": 4,
    "num_experts": 256, "num_experts_per_tok": 8, "num_shared_experts": 1, "moe_intermediate_size": 512,
    "n_group": 8, "topk_group": 4, "routed_scaling_factor": 2.5, "use_bias": false,
    "vocab_size": 157184, "tie_word_embeddings": false, "max_position_embeddings": 32768,
    "rope_theta": 600000, "partial_rotary_factor": 0.5, "rms_norm_eps": 1e-06,
    "mask_token_id": 156895, "eos_token_id": 156892, "pad_token_id": 156892})";

constexpr std::string_view kLlada2Flash = R"({"architectures": ["LLaDA2MoeModelLM"], "head_dim": 128,
    "hidden_size": 4096, "intermediate_size": 9216, "first_k_dense_replace": 1,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 4,
    "num_experts": 256, "num_experts_per_tok": 8, "num_shared_experts": 1, "moe_intermediate_size": 1024,
    "n_group": 8, "topk_group": 4, "routed_scaling_factor": 2.5, "use_bias": false,
    "vocab_size": 157184, "tie_word_embeddings": false, "max_position_embeddings": 32768,
    "rope_theta": 600000, "partial_rotary_factor": 0.5, "rms_norm_eps": 1e-06,
    "mask_token_id": 156895, "eos_token_id": 156892, "pad_token_id": 156892})";

constexpr std::string_view kChangesOfLlada22 = R"({
    "expert_capacity": 48, "block_size": 32, "delete_token_id": 156930, "split_token_id": 156931,
    "max_position_embeddings": 131072, "rope_theta": 3000000})";

}  // namespace

FamilyEntry llada2_family() {
  TensorNames tensors = transformers_tensors(name_llada2_layer);
  tensors.embedding = "model.word_embeddings";
  tensors.expert = transformers_expert;
  return {
      .name = "llada2",
      .architecture = "LLaDA2MoeModelLM",
      .read_config = read_llada2,
      .tensors = tensors,
      .mask_texts = {"<|mask|>"},
      .published_masks = {PublishedMask{156895, 157184}},
      // The published texts are unverified; these are the report's names of the operations.
      .edit_names = {"delete", "split"},
      .default_unmask = "dynamic=0.95",
      .gguf = GgufDialect{.architecture = "llada2",
                          .published_mask = 156895,
                          .read_config = read_llada2_gguf,
                          .layer = name_llada2_gguf_layer},
      // Without effect if no layer is dense, or because "use_sliding_window" must be false. The others belong
      // to multi-token prediction layers, which the published model was trained with and does not run.
      .harmless_keys = {"intermediate_size", "mtp_loss_scaling_factor", "num_nextn_predict_layers",
                        "sliding_window"},
      // The second is for copies for training with VeOmni.
      .model_types = {"llada2_moe", "llada2_moe_veomni"},
      .published = {
          PublishedConfig{"llada2-mini", kLlada2Mini},
          PublishedConfig{"llada2.1-mini", kLlada2Mini},
          PublishedConfig{"llada2-flash", kLlada2Flash},
          PublishedConfig{"llada2.1-flash", kLlada2Flash},
          PublishedConfig{"llada2.2-mini", kLlada2Mini, kChangesOfLlada22},
          PublishedConfig{"llada2.2-flash", kLlada2Flash, kChangesOfLlada22},
      }};
}

}  // namespace lacuna
