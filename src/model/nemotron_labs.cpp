// Nemotron-Labs-Diffusion (nvidia/Nemotron-Labs-Diffusion-3B, -8B, -14B and their bases;
// NemotronLabsDiffusionModel): Ministral 3's block, which is Llama's with YaRN and Llama 4's query scaling.
// The same weights read left to right and denoise blocks of 32 bidirectionally. --paradigm selects blocks
// (the causal pass over a finished block gives the next block's first token) or causal. The adapter for
// drafts (linear_spec_lora) is not read.
#include "model/family_parts.h"

namespace lacuna {
namespace {

constexpr int64_t kUsualBlock = 32;

ModelConfig read_nemotron_labs(const JsonObject& json) {
  json.expect("attention_bias", false);
  ModelConfig config = read_llama_block(json, {.grows_queries = true});
  const std::string trained = json.text("dlm_paradigm", "bidirectional");
  if (trained != "bidirectional" && trained != "autoregressive")
    json.refuse("dlm_paradigm", "bidirectional or autoregressive");
  const int64_t block_length = json.integer("block_size", kPositionCount, kUsualBlock);
  const std::optional<Paradigm> chosen = read_paradigm(json, {Paradigm::kBlocks, Paradigm::kCausal});
  const Paradigm usual = trained == "autoregressive" ? Paradigm::kCausal : Paradigm::kBlocks;
  if (chosen.value_or(usual) == Paradigm::kCausal) {
    config.mask_id = -1;
    return config;
  }
  turn_block_causal(config, block_length);
  config.causal_context = true;
  return config;
}

TensorNames nemotron_labs_tensors() {
  TensorNames names =
      transformers_tensors([](int64_t layer) { return transformers_layer_of("encoder", layer); });
  names.embedding = "encoder.embed_tokens";
  names.final_norm = "encoder.norm";
  names.head = "diffusion_head";
  return names;
}

constexpr std::string_view kNemotronLabs8b = R"({"architectures": ["NemotronLabsDiffusionModel"],
    "head_dim": 128, "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 34, "num_attention_heads": 32, "num_key_value_heads": 8,
    "vocab_size": 131072, "tie_word_embeddings": false, "max_position_embeddings": 262144,
    "rope_parameters": {"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 16.0,
      "original_max_position_embeddings": 16384, "beta_fast": 32.0, "beta_slow": 1.0,
      "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1},
    "rms_norm_eps": 1e-05, "dlm_paradigm": "bidirectional", "block_size": 32,
    "mask_token_id": 100, "bos_token_id": 1, "eos_token_id": 11})";

}  // namespace

FamilyEntry nemotron_labs_family() {
  return {.name = "nemotron-labs-diffusion",
          .architecture = "NemotronLabsDiffusionModel",
          .read_config = read_nemotron_labs,
          .tensors = nemotron_labs_tensors(),
          .published_masks = {PublishedMask{100, 131072}},
          .default_unmask = "threshold=0.9",
          // Only for training.
          .harmless_keys = {"dp_varying_mask_ratio"},
          .model_types = {"nemotron_labs_diffusion"},
          .published = {
              PublishedConfig{"nemotron-labs-diffusion-3b-base", kNemotronLabs8b, R"({
      "hidden_size": 3072, "intermediate_size": 9216, "num_hidden_layers": 26,
      "max_position_embeddings": 4096, "rope_parameters": {"factor": 0.25}, "eos_token_id": 2})"},
              PublishedConfig{"nemotron-labs-diffusion-8b", kNemotronLabs8b},
              PublishedConfig{"nemotron-labs-diffusion-14b", kNemotronLabs8b, R"({
      "hidden_size": 5120, "intermediate_size": 16384, "num_hidden_layers": 40,
      "rope_parameters": {"rope_theta": 1000000000.0}})"},
          }};
}

}  // namespace lacuna
