// Qwen2, Qwen2.5 and Qwen3, dense: left-to-right models used as guides and verifiers, and the backbone of
// ReFusion, whose config is Qwen3's with a mask token. Qwen2 adds biases to q, k and v; Qwen3 norms q and k
// per head. Two block-diffusion models have a block-causal mask instead: SDAR (JetAstra/SDAR), which is Qwen3
// and predicts each position in its own row, and Fast-dLLM v2 (NVlabs/Fast-dLLM, v2), which is Qwen2.5 and
// predicts it in the previous row. I-DLM (thuEcstasy/I-DLM) has SDAR's class but is left to right:
// "block_size" masks after the text predict the positions after their own. It is recognized by its name.
#include <algorithm>

#include "model/family_parts.h"
#include "model/gguf_keys.h"

namespace lacuna {

ModelConfig read_decoder_block(const JsonObject& json) {
  expect_silu(json);
  json.expect("use_sliding_window", false);
  json.expect_each("layer_types", "full_attention");
  json.expect("use_mrope", false);
  ModelConfig config = read_transformers_sizes(json);
  config.causal = true;
  config.mask_id = read_token_id(json, "mask_token_id", config, -1);
  return config;
}

ModelConfig read_qwen2_block(const JsonObject& json) {
  ModelConfig config = read_decoder_block(json);
  config.ffn_dim = json.integer("intermediate_size", kWidth);
  config.head_dim = read_head_dim(json, config);
  set_rope(json, config, {.usual_theta = kUsualTheta});
  config.qkv_bias = true;
  return config;
}

ModelConfig read_qwen3_attention(const JsonObject& json) {
  ModelConfig config = read_decoder_block(json);
  config.head_dim = json.integer("head_dim", kWidth, 128);
  set_rope(json, config, {.usual_theta = kUsualTheta});
  config.qk_norm_per_head = true;
  config.qkv_bias = json.flag("attention_bias", false);
  config.attn_output_bias = config.qkv_bias;
  return config;
}

ModelConfig read_qwen3_block(const JsonObject& json) {
  ModelConfig config = read_qwen3_attention(json);
  config.ffn_dim = json.integer("intermediate_size", kWidth);
  return config;
}

void turn_block_causal(ModelConfig& config, int64_t block_length) {
  config.causal = false;
  config.block_causal = true;
  config.block_length = block_length;
}

void turn_into_sdar(const JsonObject& json, ModelConfig& config) {
  constexpr int64_t kSdarBlock = 4;  // not stated by the published checkpoints
  constexpr int64_t kIdlmDrafts = 3;
  const bool file_says = says_its_name(json, "i-dlm") || says_its_name(json, "idlm");
  const bool folder_says = folder_says_its_name(json, "i-dlm") || folder_says_its_name(json, "idlm");
  const bool is_named = file_says || folder_says;
  const int64_t block_length =
      json.integer("block_size", kPositionCount, is_named ? kIdlmDrafts : kSdarBlock);
  const bool has_idlms_blocks = json.has("block_size") && block_length == kIdlmDrafts;
  const std::optional<Paradigm> chosen = read_paradigm(json, {Paradigm::kBlocks, Paradigm::kCausal});
  // A copy of I-DLM may be in a folder of another name, so config.json alone must not mean SDAR.
  if (!chosen && !file_says && folder_says != has_idlms_blocks) {
    json.refuse(
        "block_size",
        "SDAR's, or a choice, as I-DLM's files have its class and blocks of 3: --paradigm causal runs "
        "the file as I-DLM is run, --paradigm blocks as SDAR");
  }
  const Paradigm usual = is_named ? Paradigm::kCausal : Paradigm::kBlocks;
  if (chosen.value_or(usual) == Paradigm::kCausal) {
    config.mask_drafts = block_length;
  } else {
    turn_block_causal(config, block_length);
  }
}

namespace {

/// Also reads Open-dCoder, whose class and config are Qwen2's except for the mask, which may be only in the
/// tokenizer.
ModelConfig read_qwen2(const JsonObject& json) {
  ModelConfig config = read_qwen2_block(json);
  const std::optional<Paradigm> chosen = read_paradigm(json, {Paradigm::kCausal, Paradigm::kMasked});
  const bool is_named = says_its_name(json, "open-dcoder") || folder_says_its_name(json, "open-dcoder");
  if (chosen == Paradigm::kMasked || (!chosen && is_named)) {
    config.causal = false;
    config.shifted_logits = true;
  } else if (chosen == Paradigm::kCausal) {
    config.mask_id = -1;
  } else if (config.mask_id >= 0) {
    json.refuse(
        "mask_token_id",
        "none, as the class is left to right, or a choice: --paradigm masked runs it as Open-dCoder is "
        "run, --paradigm causal without its mask");
  }
  return config;
}

/// The published ReFusion adds two tokens to Qwen3's 151,669, the second being the mask, and truncates the
/// embedding after it.
bool has_refusions_vocabulary(const ModelConfig& config) {
  return config.mask_id == 151670 && config.vocab_size == 151671;
}

/// Also reads ReFusion, which has Qwen3's class; a mask token alone does not identify it.
ModelConfig read_qwen3(const JsonObject& json) {
  ModelConfig config = read_qwen3_block(json);
  const std::optional<Paradigm> chosen = read_paradigm(json, {Paradigm::kCausal, Paradigm::kSlots});
  if (chosen == Paradigm::kCausal) config.mask_id = -1;
  if (config.mask_id < 0) return config;
  const bool is_refusion = says_its_name(json, "refusion") || folder_says_its_name(json, "refusion") ||
                           has_refusions_vocabulary(config);
  if (!chosen && !is_refusion) {
    json.refuse(
        "mask_token_id",
        "none, as the class is left to right, or a choice: --paradigm slots runs it as ReFusion is run, "
        "--paradigm causal without its mask");
  }
  config.plans_slots = true;
  return config;
}

ModelConfig read_sdar(const JsonObject& json) {
  ModelConfig config = read_qwen3_block(json);
  turn_into_sdar(json, config);
  return config;
}

ModelConfig read_fast_dllm(const JsonObject& json) {
  ModelConfig config = read_qwen2_block(json);
  turn_block_causal(config, json.integer("bd_size", kPositionCount, 32));
  config.shifted_logits = true;
  // Not in published files: small_block_size is an argument of the published sampler, usually 8.
  const Range<int64_t> up_to_block{1, config.block_length};
  config.sub_block_length =
      json.integer("small_block_size", up_to_block, std::min<int64_t>(8, config.block_length));
  return config;
}

constexpr std::string_view kQwen25With7b = R"({"architectures": ["Qwen2ForCausalLM"],
    "hidden_size": 3584, "intermediate_size": 18944,
    "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
    "vocab_size": 152064, "tie_word_embeddings": false, "max_position_embeddings": 131072,
    "rope_theta": 1000000.0, "rms_norm_eps": 1e-06, "bos_token_id": 151643, "eos_token_id": [151645, 151643]})";

constexpr std::string_view kQwen3With8b = R"({"architectures": ["Qwen3ForCausalLM"], "head_dim": 128,
    "hidden_size": 4096, "intermediate_size": 12288,
    "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8,
    "vocab_size": 151936, "tie_word_embeddings": false, "max_position_embeddings": 40960,
    "rope_theta": 1000000, "rms_norm_eps": 1e-06, "bos_token_id": 151643, "eos_token_id": [151645, 151643]})";

constexpr std::string_view kSdarWith8b = R"({"architectures": ["SDARForCausalLM"], "head_dim": 128,
    "hidden_size": 4096, "intermediate_size": 12288,
    "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8,
    "vocab_size": 151936, "tie_word_embeddings": false, "max_position_embeddings": 32768,
    "rope_theta": 1000000, "rms_norm_eps": 1e-06, "block_size": 4,
    "mask_token_id": 151669, "bos_token_id": 151643, "eos_token_id": [151645, 151643]})";
constexpr std::string_view kSizesOf4b = R"({"hidden_size": 2560, "intermediate_size": 9728})";

// Has no effect where "use_sliding_window" is false, as it must be.
constexpr std::string_view kHarmlessQwen[] = {"sliding_window"};

}  // namespace

FamilyEntry qwen2_family() {
  return {
      .name = "qwen2",
      .architecture = "Qwen2ForCausalLM",
      .read_config = read_qwen2,
      .tensors = transformers_tensors(transformers_layer),
      .mask_texts = {"<M>", "[MASK]"},
      .default_unmask = "entropy",
      .gguf =
          GgufDialect{
              .architecture = "qwen2",
              .read_config = [](const GgufKeys& keys) { return gguf_dense_config(keys, "Qwen2ForCausalLM"); },
              .layer = gguf_layer},
      .harmless_keys = {std::begin(kHarmlessQwen), std::end(kHarmlessQwen)},
      .model_types = {"qwen2"},
      .is_library_class = true,
      .published = {
          PublishedConfig{"qwen2.5-0.5b", kQwen25With7b, R"({"hidden_size": 896, "intermediate_size": 4864,
      "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2,
      "vocab_size": 151936, "tie_word_embeddings": true, "max_position_embeddings": 32768})"},
          PublishedConfig{"qwen2.5-1.5b", kQwen25With7b, R"({"hidden_size": 1536, "intermediate_size": 8960,
      "num_attention_heads": 12, "num_key_value_heads": 2, "vocab_size": 151936, "tie_word_embeddings": true})"},
          PublishedConfig{"qwen2.5-7b", kQwen25With7b},
          // Unverified except the sizes, which are Qwen2.5-Coder-0.5B's, and the mask, the first free id.
          PublishedConfig{"open-dcoder-0.5b", kQwen25With7b,
                          R"({"hidden_size": 896, "intermediate_size": 4864,
      "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2,
      "vocab_size": 151936, "tie_word_embeddings": true, "max_position_embeddings": 32768,
      "lacuna": {"paradigm": "masked"}, "mask_token_id": 151665})"},
      }};
}

FamilyEntry qwen3_family() {
  return {
      .name = "qwen3",
      .architecture = "Qwen3ForCausalLM",
      .read_config = read_qwen3,
      .tensors = transformers_tensors(transformers_layer_with_qk_norm),
      .gguf =
          GgufDialect{
              .architecture = "qwen3",
              .read_config = [](const GgufKeys& keys) { return gguf_dense_config(keys, "Qwen3ForCausalLM"); },
              .layer = gguf_layer},
      .harmless_keys = {std::begin(kHarmlessQwen), std::end(kHarmlessQwen)},
      .model_types = {"qwen3", "refusion"},
      .is_library_class = true,
      .published = {
          PublishedConfig{"qwen3-0.6b", kQwen3With8b, R"({"hidden_size": 1024, "intermediate_size": 3072,
      "num_hidden_layers": 28, "num_attention_heads": 16, "tie_word_embeddings": true})"},
          PublishedConfig{"qwen3-1.7b", kQwen3With8b, R"({"hidden_size": 2048, "intermediate_size": 6144,
      "num_hidden_layers": 28, "num_attention_heads": 16, "tie_word_embeddings": true})"},
          PublishedConfig{"qwen3-4b", kQwen3With8b,
                          R"({"hidden_size": 2560, "intermediate_size": 9728, "tie_word_embeddings": true})"},
          PublishedConfig{"qwen3-8b", kQwen3With8b},
          // Qwen3-8B with a smaller embedding and a mask token; max_position_embeddings is taken from
          // Qwen3-8B.
          PublishedConfig{"refusion-8b", kQwen3With8b,
                          R"({"vocab_size": 151671, "lacuna": {"paradigm": "slots"},
      "mask_token_id": 151670, "bos_token_id": 151669, "eos_token_id": 151645, "pad_token_id": 151643})"},
      }};
}

FamilyEntry sdar_family() {
  return {
      .name = "sdar",
      .architecture = "SDARForCausalLM",
      .read_config = read_sdar,
      .tensors = transformers_tensors(transformers_layer_with_qk_norm),
      .mask_texts = {"<|MASK|>", "<MASK>"},
      .published_masks = {PublishedMask{151669, 151936}},
      .default_unmask = "low-confidence",
      .harmless_keys = {std::begin(kHarmlessQwen), std::end(kHarmlessQwen)},
      .model_types = {"sdar"},
      // TraDo has this class and these sizes; unverified against its own files.
      .published = {
          PublishedConfig{"sdar-1.7b", kSdarWith8b, R"({"hidden_size": 2048, "intermediate_size": 6144,
      "num_hidden_layers": 28, "num_attention_heads": 16})"},
          PublishedConfig{"sdar-4b", kSdarWith8b, kSizesOf4b},
          PublishedConfig{"trado-4b", kSdarWith8b, kSizesOf4b},
          PublishedConfig{"sdar-8b", kSdarWith8b},
          PublishedConfig{"trado-8b", kSdarWith8b},
          // Unverified except the sizes of the layers, which are Qwen3-8B's, the mask and the blocks of 3.
          PublishedConfig{
              "i-dlm-8b", kSdarWith8b,
              R"({"max_position_embeddings": 40960, "block_size": 3, "lacuna": {"paradigm": "causal"}})"},
      }};
}

FamilyEntry fast_dllm_family() {
  return {.name = "fast-dllm",
          .architecture = "Fast_dLLM_QwenForCausalLM",
          .read_config = read_fast_dllm,
          .tensors = transformers_tensors(transformers_layer),
          .mask_texts = {"|<MASK>|"},
          .published_masks = {PublishedMask{151665, 151936}, PublishedMask{151665, 152064}},
          .default_unmask = "dynamic=0.9",
          // Additionally, training settings of Fast-dLLM v2 in both spellings, and the text of its mask,
          // which is known by its id.
          .harmless_keys = {"complementary_mask", "conplemenrary_mask", "mask_token", "sliding_window"},
          .model_types = {"fast_dllm_qwen"},
          // Unverified except the sizes of the layers; the rest is Qwen2.5-7B's.
          .published = {PublishedConfig{"fast-dllm-v2-7b", kQwen25With7b,
                                        R"({"architectures": ["Fast_dLLM_QwenForCausalLM"],
      "max_position_embeddings": 32768, "bd_size": 32,
      "mask_token_id": 151665, "eos_token_id": 151645, "pad_token_id": 151645})"}}};
}

}  // namespace lacuna
