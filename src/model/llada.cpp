// LLaDA 8B Base, Instruct and 1.5 (Nie et al. 2025; LLaDAModelLM). A Llama-like block under OLMo's key and
// tensor names with full attention; row i predicts position i. Keys that have one value in all published
// files and would change the computation are refused at any other value.
#include <fmt/format.h>

#include <cmath>

#include "model/family_parts.h"
#include "model/gguf_keys.h"

namespace lacuna {
namespace {

void check_llada(const JsonObject& json) {
  json.require("block_type", "llama");
  json.require("layer_norm_type", "rms");
  json.require("activation_type", "silu");  // "swiglu" would halve the inner width
  json.require("rope", true);
  json.expect("alibi", false);
  json.expect("block_group_size", 1);
  json.expect("include_bias", false);
  json.expect("bias_for_layer_norm", false);
  json.expect("layer_norm_with_affine", true);
  json.expect("attention_layer_norm_with_affine", true);
  json.expect_absent("clip_qkv");
}

int64_t read_kv_heads(const JsonObject& json, int64_t num_heads) {
  const int64_t otherwise = json.flag("multi_query_attention", false) ? 1 : num_heads;
  return json.integer("n_kv_heads", kWidth, otherwise);
}

int64_t read_ffn_dim(const JsonObject& json, int64_t hidden_dim) {
  if (json.has("mlp_hidden_size")) return json.integer("mlp_hidden_size", kWidth);
  return json.integer("mlp_ratio", {1, 64}, 4) * hidden_dim;
}

ModelConfig read_llada(const JsonObject& json) {
  check_llada(json);
  ModelConfig config;
  config.num_layers = json.integer("n_layers", kLayerCount);
  config.hidden_dim = json.integer("d_model", kWidth);
  config.num_heads = json.integer("n_heads", kWidth);
  config.num_kv_heads = read_kv_heads(json, config.num_heads);
  config.head_dim = read_head_dim(json, config);
  config.ffn_dim = read_ffn_dim(json, config.hidden_dim);
  config.vocab_size = json.integer("embedding_size", kVocabSize, json.integer("vocab_size", kVocabSize));
  config.max_positions = json.integer("max_sequence_length", kPositionCount);
  config.norm_eps = json.number("rms_norm_eps", kNormEps, 1e-5F);
  set_rope(json, config, {.scales = false});
  config.qkv_bias = json.flag("include_qkv_bias", false);
  config.qk_norm_full = json.flag("attention_layer_norm", false);
  config.tied_embeddings = json.flag("weight_tying");
  const float root = std::sqrt(static_cast<float>(config.hidden_dim));
  if (json.flag("input_emb_norm", false)) config.embedding_scale = root;
  if (json.flag("scale_logits", false)) config.logit_scale = 1 / root;
  config.mask_id = read_token_id(json, "mask_token_id", config, -1);
  turn_into_d2f_if_chosen(json, config);
  return config;
}

LayerTensorNames name_llada_layer(int64_t layer) {
  const std::string block = fmt::format("model.transformer.blocks.{}.", layer);
  LayerTensorNames names;
  names.attn_norm = block + "attn_norm";
  names.q = block + "q_proj";
  names.k = block + "k_proj";
  names.v = block + "v_proj";
  names.o = block + "attn_out";
  names.q_norm = block + "q_norm";
  names.k_norm = block + "k_norm";
  names.ffn_norm = block + "ff_norm";
  names.gate = block + "ff_proj";
  names.up = block + "up_proj";
  names.down = block + "ff_out";
  return names;
}

nlohmann::json read_llada_gguf(const GgufKeys& keys) {
  const nlohmann::json sizes = gguf_sizes(keys, "LLaDAModelLM");
  return {{"architectures", sizes["architectures"]},
          {"block_type", "llama"},
          {"layer_norm_type", "rms"},
          {"activation_type", "silu"},
          {"rope", true},
          {"n_layers", sizes["num_hidden_layers"]},
          {"d_model", sizes["hidden_size"]},
          {"n_heads", sizes["num_attention_heads"]},
          {"n_kv_heads", sizes["num_key_value_heads"]},
          {"head_dim", sizes["head_dim"]},
          {"mlp_hidden_size", keys.integer("feed_forward_length", kWidth)},
          {"vocab_size", sizes["vocab_size"]},
          {"weight_tying", sizes["tie_word_embeddings"]},
          {"max_sequence_length", sizes["max_position_embeddings"]},
          {"rope_theta", sizes["rope_theta"]},
          {"rms_norm_eps", sizes["rms_norm_eps"]}};
}

constexpr std::string_view kLlada8b = R"({"architectures": ["LLaDAModelLM"],
    "block_type": "llama", "layer_norm_type": "rms", "activation_type": "silu", "rope": true,
    "d_model": 4096, "mlp_hidden_size": 12288, "n_layers": 32, "n_heads": 32, "n_kv_heads": 32,
    "vocab_size": 126464, "embedding_size": 126464, "weight_tying": false, "max_sequence_length": 4096,
    "rope_theta": 500000.0, "rms_norm_eps": 1e-05,
    "mask_token_id": 126336, "eos_token_id": [126081, 126348], "pad_token_id": 126081})";

}  // namespace

FamilyEntry llada_family() {
  const TensorNames tensors = {.embedding = "model.transformer.wte",
                               .final_norm = "model.transformer.ln_f",
                               .head = "model.transformer.ff_out",
                               .layer = name_llada_layer,
                               .expert = nullptr};
  return {.name = "llada",
          .architecture = "LLaDAModelLM",
          .read_config = read_llada,
          .tensors = tensors,
          .published_masks = {PublishedMask{126336, 126464}},
          .default_unmask = "low-confidence",
          .gguf = GgufDialect{.architecture = "llada",
                              .published_mask = 126336,
                              .read_config = read_llada_gguf,
                              .layer = gguf_layer,
                              .interleaves_rotation = true},
          // Keys of its class that do not change the forward pass: OLMo's training and kernels, biases for
          // "alibi", which is off, the ratio that "mlp_hidden_size" replaces, and RoPE in f32, always used
          // here.
          .harmless_keys = {"alibi_bias_max", "init_cutoff_factor", "init_device", "init_fn", "mlp_ratio",
                            "rope_full_precision"},
          .model_types = {"llada"},
          .published = {
              PublishedConfig{"llada-8b", kLlada8b},
              PublishedConfig{"d2f-llada-8b", kLlada8b, R"({"lacuna": {"paradigm": "blocks"}})"},
          }};
}

}  // namespace lacuna
