// Sumi-7B (tohoku-nlp/sumi-7b, arXiv 2606.19005; SumiForMaskGeneration): uniform diffusion as GIDD's, on
// Llama's block in both directions. Row i predicts position i. Its attention softmax has a sink with score
// and value 0 (softmax_one). There is no mask token, and the whole canvas is denoised at once. It is a base
// model without a chat template; its tokenizer prepends the bos token.
#include <algorithm>

#include "model/family_parts.h"

namespace lacuna {
namespace {

ModelConfig read_sumi(const JsonObject& json) {
  json.expect_absent("mask_token_id");
  if (!json.has("eos_token_id")) json.refuse("eos_token_id", "a token id: it follows the answer");
  json.expect("attention_bias", false);
  ModelConfig config = read_llama_block(json, {});
  config.qkv_bias = json.flag("add_qkv_bias", false);
  config.causal = false;
  config.zero_sink = true;
  config.bos_id = read_token_id(json, "bos_token_id", config);
  WholeCanvas canvas;
  canvas.length = std::min(canvas.length, config.max_positions);
  config.noise = NoiseProcess{.uniform_shift = 1000, .whole_canvas = canvas};
  config.default_tokens_per_step = 1;
  return config;
}

}  // namespace

FamilyEntry sumi_family() {
  return {.name = "sumi",
          .architecture = "SumiForMaskGeneration",
          .read_config = read_sumi,
          .tensors = transformers_tensors(transformers_layer),
          .model_types = {"sumi"},
          .published = {
              PublishedConfig{"sumi-7b", R"({"architectures": ["SumiForMaskGeneration"], "head_dim": 128,
      "hidden_size": 4096, "intermediate_size": 12288,
      "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8,
      "vocab_size": 100278, "tie_word_embeddings": false, "max_position_embeddings": 4864,
      "rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}, "rms_norm_eps": 1e-05,
      "bos_token_id": 100256, "eos_token_id": 100257, "pad_token_id": 100277})"}}};
}

}  // namespace lacuna
