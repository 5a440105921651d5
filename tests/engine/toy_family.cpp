// The family of docs/inside/adding_a_family.md, which quotes this file from the line below on.
#include "model/family_parts.h"

namespace lacuna {
namespace {

// config.json: what changes the computation is read or refused, and everything else is refused by its name.
ModelConfig read_toy(const JsonObject& object) {
  object.expect("hidden_act",
                "silu");  // another activation is refused; a file that says nothing means this one
  ModelConfig config = read_transformers_sizes(object);
  config.ffn_dim = object.integer("intermediate_size", kWidth);
  config.head_dim = read_head_dim(object, config);
  set_rope(object, config);
  config.mask_id = read_token_id(object, "mask_token_id", config);
  return config;
}

// Tensors: the transformers library's names, but for two.
LayerTensorNames name_toy_layer(int64_t layer) {
  LayerTensorNames names = transformers_layer(layer);
  const std::string prefix = "model.layers." + std::to_string(layer);
  names.attn_norm = prefix + ".norm_1";
  names.ffn_norm = prefix + ".norm_2";
  return names;
}

}  // namespace

FamilyEntry toy_family() {
  return {.name = "toy",
          .architecture = "ToyForMaskedLM",
          .read_config = read_toy,
          .tensors = transformers_tensors(name_toy_layer),
          .default_unmask = "low-confidence",
          .model_types = {"toy"},
          // A shape for `-m random:toy-1b`.
          .published = {PublishedConfig{"toy-1b", R"({"architectures": ["ToyForMaskedLM"],
      "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22, "num_attention_heads": 32,
      "num_key_value_heads": 4, "vocab_size": 32000, "max_position_embeddings": 2048,
      "rope_theta": 10000, "rms_norm_eps": 1e-05, "mask_token_id": 31999})"}}};
}

}  // namespace lacuna
