// CoDA 1.7B (Salesforce; CoDALanguageModel): Qwen3's block without the causal mask. It keeps the shift of the
// left-to-right model it was trained from: row i - 1 predicts position i.
#include "model/family_parts.h"

namespace lacuna {
namespace {

ModelConfig read_coda(const JsonObject& json) {
  ModelConfig config = read_qwen3_block(json);
  config.causal = false;
  config.shifted_logits = true;
  config.tied_embeddings = false;  // never tied, whatever the file says
  return config;
}

}  // namespace

FamilyEntry coda_family() {
  return {
      .name = "coda",
      .architecture = "CoDALanguageModel",
      .read_config = read_coda,
      .tensors = transformers_tensors(transformers_layer_with_qk_norm),
      .mask_texts = {"<|mask|>"},
      .published_masks = {PublishedMask{151669, 151936}},
      .default_unmask = "entropy",
      // Keys without effect: the class never ties its embeddings, "use_sliding_window" must be false, and the
      // others set the masking in training (modeling_coda.py).
      .harmless_keys = {"tie_word_embeddings", "sliding_window", "mask_block_sizes",
                        "block_masking_probability", "prefix_probability", "truncate_probability",
                        "masking_scheduler", "sampling_eps"},
      .model_types = {"coda"},
      .published = {PublishedConfig{"coda-1.7b", R"({"architectures": ["CoDALanguageModel"], "head_dim": 128,
      "hidden_size": 2048, "intermediate_size": 6144,
      "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8,
      "vocab_size": 151936, "tie_word_embeddings": false, "max_position_embeddings": 40960,
      "rope_theta": 1000000, "rms_norm_eps": 1e-06, "mask_token_id": 151669})"}}};
}

}  // namespace lacuna
