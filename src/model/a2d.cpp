// Tiny-A2D (ZHZisZZ/dllm; A2DQwen2LMHeadModel, A2DQwen3LMHeadModel, A2DLlamaLMHeadModel): Qwen2.5, Qwen3 and
// Llama without the causal mask, trained further as masked diffusion (MDLM) or as block diffusion with blocks
// of 32 (BD3LM). Row i predicts position i. Both have the same config.json, so the checkpoint's name or the
// user distinguishes them. Only the tokenizer names the mask.
#include "model/family_parts.h"

namespace lacuna {
namespace {

Paradigm paradigm_of_a2d(const JsonObject& json) {
  if (const auto chosen = read_paradigm(json, {Paradigm::kMasked, Paradigm::kBlocks})) return *chosen;
  const bool is_masked = says_its_name(json, "mdlm") || folder_says_its_name(json, "mdlm");
  const bool has_blocks = says_its_name(json, "bd3lm") || folder_says_its_name(json, "bd3lm");
  if (is_masked == has_blocks) {
    json.refuse(
        "architectures",
        "a choice, as neither this file nor its folder says how the model was trained: --paradigm masked "
        "(MDLM) or --paradigm blocks (BD3LM)");
  }
  return is_masked ? Paradigm::kMasked : Paradigm::kBlocks;
}

ModelConfig make_a2d(const JsonObject& json, ModelConfig config) {
  config.causal = false;
  if (paradigm_of_a2d(json) == Paradigm::kBlocks) {
    turn_block_causal(config, json.integer("block_size", kPositionCount, 32));
  }
  return config;
}

constexpr std::string_view kMaskedChoice = R"({"lacuna": {"paradigm": "masked"}})";
constexpr std::string_view kBlocksChoice = R"({"lacuna": {"paradigm": "blocks"}})";

constexpr std::string_view kA2dQwen2With05b = R"({"architectures": ["A2DQwen2LMHeadModel"],
    "hidden_size": 896, "intermediate_size": 4864,
    "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2,
    "vocab_size": 151936, "tie_word_embeddings": true, "max_position_embeddings": 32768,
    "rope_theta": 1000000.0, "rms_norm_eps": 1e-06,
    "mask_token_id": 151665, "bos_token_id": 151643, "eos_token_id": 151645, "pad_token_id": 151643})";

constexpr std::string_view kA2dQwen3With06b = R"({"architectures": ["A2DQwen3LMHeadModel"], "head_dim": 128,
    "hidden_size": 1024, "intermediate_size": 3072,
    "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8,
    "vocab_size": 151936, "tie_word_embeddings": true, "max_position_embeddings": 40960,
    "rope_theta": 1000000, "rms_norm_eps": 1e-06,
    "mask_token_id": 151669, "bos_token_id": 151643, "eos_token_id": 151645, "pad_token_id": 151643})";

// Has no effect because "use_sliding_window" must be false.
constexpr std::string_view kHarmlessA2d[] = {"sliding_window"};
constexpr std::string_view kA2dMasks[] = {"<|mask|>"};

}  // namespace

FamilyEntry a2d_qwen2_family() {
  return {.name = "a2d-qwen2",
          .architecture = "A2DQwen2LMHeadModel",
          .read_config = [](const JsonObject& json) { return make_a2d(json, read_qwen2_block(json)); },
          .tensors = transformers_tensors(transformers_layer),
          .mask_texts = {std::begin(kA2dMasks), std::end(kA2dMasks)},
          .published_masks = {PublishedMask{151665, 151936}},
          .default_unmask = "low-confidence",
          .harmless_keys = {std::begin(kHarmlessA2d), std::end(kHarmlessA2d)},
          .model_types = {"a2d-qwen2"},
          .published = {
              PublishedConfig{"a2d-qwen2.5-0.5b-mdlm", kA2dQwen2With05b, kMaskedChoice},
              PublishedConfig{"a2d-qwen2.5-0.5b-bd3lm", kA2dQwen2With05b, kBlocksChoice},
          }};
}

FamilyEntry a2d_qwen3_family() {
  return {.name = "a2d-qwen3",
          .architecture = "A2DQwen3LMHeadModel",
          .read_config = [](const JsonObject& json) { return make_a2d(json, read_qwen3_block(json)); },
          .tensors = transformers_tensors(transformers_layer_with_qk_norm),
          .mask_texts = {std::begin(kA2dMasks), std::end(kA2dMasks)},
          .published_masks = {PublishedMask{151669, 151936}},
          .default_unmask = "low-confidence",
          .harmless_keys = {std::begin(kHarmlessA2d), std::end(kHarmlessA2d)},
          .model_types = {"a2d-qwen3"},
          .published = {
              PublishedConfig{"a2d-qwen3-0.6b-mdlm", kA2dQwen3With06b, kMaskedChoice},
              PublishedConfig{"a2d-qwen3-0.6b-bd3lm", kA2dQwen3With06b, kBlocksChoice},
          }};
}

FamilyEntry a2d_llama_family() {
  return {.name = "a2d-llama",
          .architecture = "A2DLlamaLMHeadModel",
          .read_config = [](const JsonObject& json) { return make_a2d(json, read_llama_block(json)); },
          .tensors = transformers_tensors(transformers_layer),
          .mask_texts = {std::begin(kA2dMasks), std::end(kA2dMasks)},
          .default_unmask = "low-confidence",
          .model_types = {"a2d-llama"}};
}

}  // namespace lacuna
