// SDLM (OpenGVLab/SDLM, sdlm/model/sdlm_qwen2_5): Qwen2.5's block, left to right, also trained on a window of
// masks after a text; its rows and the row of the text's last token attend to each other.
#include "model/family_parts.h"

namespace lacuna {
namespace {

ModelConfig read_sdlm(const JsonObject& json) {
  ModelConfig config = read_qwen2_block(json);
  constexpr Range<int64_t> kWindow{2, 1024};
  config.mask_drafts = json.integer("block_size", kWindow, 4) - 1;
  config.drafts_see_each_other = true;
  // A window with causal attention is another model; the first files misspell the key.
  json.expect("causal_attn", false);
  json.expect("casual_attn", false);
  config.mask_id = read_token_id(json, "text_mask_token_id", config, -1);
  return config;
}

}  // namespace

FamilyEntry sdlm_family() {
  return {
      .name = "sdlm",
      .architecture = "SDLMQwen2ForCausalLM",
      .read_config = read_sdlm,
      .tensors = transformers_tensors(transformers_layer),
      .mask_texts = {"<text_mask>"},
      // The mask's text (its id is read instead), and an attention window that "use_sliding_window" disables.
      .harmless_keys = {"text_mask_token", "sliding_window"},
      .model_types = {"qwen2", "sdlm_qwen2"},
      .published = {PublishedConfig{"sdlm-32b-d4", R"({"architectures": ["SDLMQwen2ForCausalLM"],
      "hidden_size": 5120, "intermediate_size": 27648,
      "num_hidden_layers": 64, "num_attention_heads": 40, "num_key_value_heads": 8,
      "vocab_size": 151666, "tie_word_embeddings": false, "max_position_embeddings": 131072,
      "rope_theta": 1000000.0, "rms_norm_eps": 1e-05, "block_size": 4, "text_mask_token_id": 151665,
      "bos_token_id": 151643, "eos_token_id": [151643, 151645]})"}}};
}

}  // namespace lacuna
