// Dream v0 7B Base and Instruct, and models trained from them under the same class (Ye et al. 2025;
// DreamModel). One is DreamOn, with a token that becomes two masks. Qwen2.5's block without the causal mask.
// It keeps the shift of the left-to-right model it was trained from: row i - 1 predicts position i.
#include "model/family_parts.h"
#include "model/gguf_keys.h"

namespace lacuna {
namespace {

ModelConfig read_dream(const JsonObject& json) {
  expect_silu(json);
  json.expect("use_sliding_window", false);
  json.expect("use_mrope", false);
  ModelConfig config = read_transformers_sizes(json);
  config.ffn_dim = json.integer("intermediate_size", kWidth);
  config.head_dim = read_head_dim(json, config);
  set_rope(json, config);
  config.qkv_bias = true;
  config.shifted_logits = true;
  config.mask_id = read_token_id(json, "mask_token_id", config, -1);
  config.expand_id = read_token_id(json, "expand_token_id", config, -1);
  if (config.expand_id >= 0) config.delete_id = read_token_id(json, "delete_token_id", config, -1);
  turn_into_d2f_if_chosen(json, config);
  return config;
}

// Dream-Coder and DiffuCoder have this class and these sizes; unverified against their own files.
constexpr std::string_view kDream7b = R"({"architectures": ["DreamModel"],
    "hidden_size": 3584, "intermediate_size": 18944,
    "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
    "vocab_size": 152064, "tie_word_embeddings": false, "max_position_embeddings": 131072,
    "rope_theta": 1000000.0, "rms_norm_eps": 1e-06,
    "mask_token_id": 151666, "bos_token_id": 151643, "eos_token_id": [151643, 151645], "pad_token_id": 151643})";

}  // namespace

FamilyEntry dream_family() {
  return {.name = "dream",
          .architecture = "DreamModel",
          .read_config = read_dream,
          .tensors = transformers_tensors(transformers_layer),
          .mask_texts = {"<|mask|>"},
          .published_masks = {PublishedMask{151666, 152064}},
          // DreamOn's token that becomes two masks. Its end-of-text token deletes a position.
          .expand_texts = {"<|expand|>"},
          .default_unmask = "entropy",
          .gguf = GgufDialect{.architecture = "dream",
                              .published_mask = 151666,
                              .read_config =
                                  [](const GgufKeys& keys) { return gguf_dense_config(keys, "DreamModel"); },
                              .layer = gguf_layer},
          // Has no effect because "use_sliding_window" must be false.
          .harmless_keys = {"sliding_window"},
          .model_types = {"dream"},
          .published = {
              PublishedConfig{"dream-7b", kDream7b},
              PublishedConfig{"dream-coder-7b", kDream7b},
              PublishedConfig{"diffucoder-7b", kDream7b},
              PublishedConfig{"d2f-dream-7b", kDream7b, R"({"lacuna": {"paradigm": "blocks"}})"},
              PublishedConfig{"dreamon-7b", kDream7b, R"({"max_position_embeddings": 2048,
      "expand_token_id": 151667, "bos_token_id": 151665, "eos_token_id": 151643})"},
          }};
}

}  // namespace lacuna
