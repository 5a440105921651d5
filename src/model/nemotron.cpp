// Nemotron-4 and models pruned from it, Minitron and Nemotron-Mini (nvidia/Minitron-4B-Base, -8B-Base,
// nvidia/Nemotron-Mini-4B-Instruct; NemotronForCausalLM), left to right. Llama's block, but with LayerNorm
// whose stored weights are offsets from 1, squared ReLU without a gate, and RoPE on half of each head.
// Nemotron-Labs-Diffusion (nemotron_labs.cpp) is another architecture.
#include "model/family_parts.h"
#include "model/gguf_keys.h"

namespace lacuna {
namespace {

// Defaults of the class.
constexpr float kUsualNormEps = 1e-5F;
constexpr float kUsualShare = 0.5F;

ModelConfig read_nemotron(const JsonObject& json) {
  json.expect_absent("mask_token_id");  // a diffusion model under a borrowed class
  json.expect("hidden_act", "relu2");
  ModelConfig config = read_transformers_sizes(json, "norm_eps", kUsualNormEps);
  config.causal = true;
  config.ffn_dim = json.integer("intermediate_size", kWidth);
  config.head_dim = read_head_dim(json, config);
  set_rope(json, config,
           {.usual_theta = kUsualTheta, .usual_share = kUsualShare, .allows_partial_rotation = true});
  const bool has_biases = json.flag("attention_bias", false);
  // Lacuna's own keys, for GGUF files, which indicate biases by their tensors.
  config.qkv_bias = json.flag("qkv_bias", has_biases);
  config.attn_output_bias = json.flag("o_bias", has_biases);
  config.ffn_bias = json.flag("mlp_bias", false);
  config.activation = Activation::kSquaredRelu;
  config.layer_norm = true;
  config.norm_offset = json.flag("norms_add_one", true);
  return config;
}

LayerTensorNames name_nemotron_layer(int64_t layer) {
  LayerTensorNames names = transformers_layer(layer);
  names.gate.clear();
  return names;
}

nlohmann::json read_nemotron_gguf(const GgufKeys& keys) {
  nlohmann::json config = gguf_dense_config(keys, "NemotronForCausalLM", true);
  const auto head_dim = config["head_dim"].get<int64_t>();
  const int64_t rotary_dim = keys.integer("rope.dimension_count", {2, head_dim}, head_dim);
  config["rotary_dim"] = rotary_dim;
  config["partial_rotary_factor"] = static_cast<double>(rotary_dim) / static_cast<double>(head_dim);
  const auto has = [&](const char* tensor) { return keys.file().find(tensor) != nullptr; };
  config["qkv_bias"] = has("blk.0.attn_q.bias");
  config["o_bias"] = has("blk.0.attn_output.bias");
  config["mlp_bias"] = has("blk.0.ffn_up.bias");
  return config;
}

LayerTensorNames nemotron_gguf_layer(int64_t layer) {
  LayerTensorNames names = gguf_layer(layer);
  names.gate.clear();
  return names;
}

}  // namespace

FamilyEntry nemotron_family() {
  return {.name = "nemotron",
          .architecture = "NemotronForCausalLM",
          .read_config = read_nemotron,
          .tensors = transformers_tensors(name_nemotron_layer),
          .gguf = GgufDialect{.architecture = "nemotron",
                              .read_config = read_nemotron_gguf,
                              .layer = nemotron_gguf_layer,
                              .adds_one_to_norms = true},
          .model_types = {"nemotron"},
          .is_library_class = true,
          .published = {PublishedConfig{"minitron-4b", R"({"architectures": ["NemotronForCausalLM"],
      "hidden_act": "relu2", "hidden_size": 3072, "intermediate_size": 9216, "num_hidden_layers": 32,
      "num_attention_heads": 24, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 256000,
      "tie_word_embeddings": false, "max_position_embeddings": 4096, "partial_rotary_factor": 0.5,
      "rope_theta": 10000.0, "norm_eps": 1e-05, "bos_token_id": 2, "eos_token_id": 3})"}}};
}

}  // namespace lacuna
