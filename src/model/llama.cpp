// Llama's block without norms of q and k, mostly without biases: Llama itself (LlamaForCausalLM), left to
// right, and the two diffusion models made from it. Stable-DiffCoder (ByteDance-Seed/Stable-DiffCoder;
// StableDiffcoderForCausalLM) is block diffusion as SDAR is, in blocks of 4, on the weights of Seed-Coder.
// Tiny-A2D's A2DLlamaLMHeadModel is in a2d.cpp.
#include "model/family_parts.h"
#include "model/gguf_keys.h"

namespace lacuna {
namespace {

constexpr int64_t kStableDiffcoderBlock = 4;

ModelConfig read_llama(const JsonObject& json) {
  json.expect_absent("mask_token_id");  // a diffusion model under a borrowed class
  return read_llama_block(json);
}

ModelConfig read_stable_diffcoder(const JsonObject& json) {
  ModelConfig config = read_llama_block(json);
  turn_block_causal(config, json.integer("block_size", kPositionCount, kStableDiffcoderBlock));
  return config;
}

nlohmann::json read_llama_gguf(const GgufKeys& keys) {
  for (const char* const name : {"expert_count", "expert_used_count"}) keys.integer(name, {0, 0}, 0);
  nlohmann::json config = gguf_dense_config(keys, "LlamaForCausalLM");
  config["qkv_bias"] = keys.file().find("blk.0.attn_q.bias") != nullptr;
  config["o_bias"] = keys.file().find("blk.0.attn_output.bias") != nullptr;
  return config;
}

}  // namespace

ModelConfig read_llama_block(const JsonObject& json, const RopeRules& rope) {
  ModelConfig config = read_decoder_block(json);
  const bool has_biases = json.flag("attention_bias", false);
  // Lacuna's own keys, for GGUF files, which indicate biases by their tensors.
  config.qkv_bias = json.flag("qkv_bias", has_biases);
  config.attn_output_bias = json.flag("o_bias", has_biases);
  json.expect("mlp_bias", false);
  config.ffn_dim = json.integer("intermediate_size", kWidth);
  config.head_dim = read_head_dim(json, config);
  set_rope(json, config, rope);
  return config;
}

FamilyEntry llama_family() {
  return {.name = "llama",
          .architecture = "LlamaForCausalLM",
          .read_config = read_llama,
          .tensors = transformers_tensors(transformers_layer),
          .gguf = GgufDialect{.architecture = "llama",
                              .read_config = read_llama_gguf,
                              .layer = gguf_layer,
                              .interleaves_rotation = true,
                              .divides_frequencies = true},
          .model_types = {"llama"},
          .is_library_class = true};
}

FamilyEntry stable_diffcoder_family() {
  return {.name = "stable-diffcoder",
          .architecture = "StableDiffcoderForCausalLM",
          .read_config = read_stable_diffcoder,
          .tensors = transformers_tensors(transformers_layer),
          .published_masks = {PublishedMask{5, 155136}},
          .default_unmask = "low-confidence",
          .model_types = {"llama", "stable_diffcoder"},
          .published = {
              PublishedConfig{"stable-diffcoder-8b", R"({"architectures": ["StableDiffcoderForCausalLM"],
      "head_dim": 128, "hidden_size": 4096, "intermediate_size": 14336,
      "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
      "vocab_size": 155136, "tie_word_embeddings": false, "max_position_embeddings": 8192,
      "rope_theta": 500000.0, "rms_norm_eps": 1e-06,
      "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1})"}}};
}

}  // namespace lacuna
