// Which unread keys pass, which are worth a word, and which are refused.
#include "model/config_keys.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "model/family_config.h"
#include "model/read_config.h"

namespace lacuna::config_keys_test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

// One of every family that has a published config.
const char* const kModels[] = {"llada-8b",
                               "llada-moe-7b",
                               "dream-7b",
                               "qwen2.5-0.5b",
                               "qwen3-0.6b",
                               "qwen3-30b-a3b",
                               "sdar-4b",
                               "sdar-30b-a3b",
                               "rnd1-30b-a3b",
                               "coda-1.7b",
                               "llada2-mini",
                               "fast-dllm-v2-7b",
                               "gidd-3b",
                               "a2d-qwen2.5-0.5b-mdlm",
                               "a2d-qwen3-0.6b-bd3lm",
                               "stable-diffcoder-8b",
                               "nemotron-labs-diffusion-8b",
                               "sumi-7b"};

TEST(ConfigKeys, OfBookkeepingPassInEveryFamily) {
  const std::vector<std::pair<std::string, json>> keys = {
      {"use_deepep", true},
      {"attention_kernel", "flash_attention"},
      {"_moe_implementation", "fused"},
      {"_attn_implementation_internal", "sdpa"},
      {"_experts_implementation", "grouped_mm"},
      {"unsloth_version", "2025.9.1"},
      {"unsloth_fixed", true},
      {"unsloth_training_notes", {{"a", 1}}},
      {"model_name", "unsloth/qwen"},
      {"is_llama_config", true},
      {"is_decoder", true},
      {"is_encoder_decoder", false},
      {"add_cross_attention", false},
      {"rope_interleaved", false},
      {"layer_types", {"full_attention", "full_attention"}},
      {"transformers.js_config", {{"dtype", "q4"}}},
      {"torch_dtype", "bfloat16"},
      {"dtype", "float16"},
      {"flash_attn_varlen", true},
      {"use_liger_kernel", true},
      {"gradient_checkpointing_kwargs", {{"use_reentrant", false}}},
      {"max_window_layers", 21},
      {"max_seq_length", 2048},
      {"lora_dropout", 0.1},
      {"ar_loss_weight", 1.0},
      {"use_cache", false},
      {"pretraining_tp", 8},
      {"label_smoothing", 0.1}};
  for (const char* const model : kModels) {
    const ModelConfig plain = read_json_config(published_config(model));
    for (const auto& [key, value] : keys) {
      SCOPED_TRACE(testing::Message() << model << ' ' << key);
      ASSERT_NO_THROW((void)read_json_config(with_key(published_config(model), key, value)));
      EXPECT_EQ(read_json_config(with_key(published_config(model), key, value)), plain);
    }
  }
}

TEST(ConfigKeys, ThatNobodyKnowsPassWithAWordWhereTheySwitchNothingOn) {
  const std::vector<std::pair<std::string, json>> keys = {{"use_future_gate", false},
                                                          {"future_window", 0},
                                                          {"future_name", ""},
                                                          {"future_layers", json::array()},
                                                          {"future_map", json::object()},
                                                          {"future_multiplier", 1.0},
                                                          {"future_scale", 1}};
  for (const char* const model : kModels) {
    for (const auto& [key, value] : keys) {
      const ModelConfig config = read_json_config(with_key(published_config(model), key, value));
      EXPECT_THAT(config.unknown_keys, ElementsAre(key)) << model;
      EXPECT_EQ(warning_of(config, "folder"),
                "folder/config.json: \"" + key + "\" is not known here; its value switches nothing on");
    }
    EXPECT_THAT(read_json_config(with_key(published_config(model), "future_gate", nullptr)).unknown_keys,
                IsEmpty());
    const std::vector<std::pair<std::string, json>> refused = {
        {"use_future_gate", true},       {"future_window", 1},     {"future_name", "x"},
        {"future_layers", {0}},          {"future_multiplier", 0}, {"future_scale", 0.5},
        {"future_map", {{"a", nullptr}}}};
    for (const auto& [key, value] : refused)
      expect_config_refused(published_config(model), key, value, "--ignore-config-keys " + key);
  }
}

TEST(ConfigKeys, TellTogetherWhatIsNotKnown) {
  json config = published_config("qwen3-0.6b");
  config.update({{"b_gate", false}, {"a_gate", false}});
  EXPECT_EQ(warning_of(read_json_config(config), "m"),
            "m/config.json: \"a_gate\", \"b_gate\" are not known here; their values switch nothing on");
}

// Mechanisms of other architectures, as their files name them.
TEST(ConfigKeys, OfForeignMechanismsAreRefused) {
  const std::vector<std::pair<std::string, json>> foreign = {
      {"embedding_multiplier", 12.0},
      {"residual_multiplier", 0.22},
      {"attention_multiplier", 0.5},
      {"logits_scaling", 8.0},
      {"logit_scale", 0.0625},
      {"scale_emb", 12},
      {"scale_depth", 1.4},
      {"dim_model_base", 256},
      {"query_pre_attn_scalar", 77},
      {"attn_logit_softcapping", 50.0},
      {"final_logit_softcapping", 31.0},
      {"sliding_window_pattern", 6},
      {"rope_local_base_freq", 10000.0},
      {"no_rope_layers", {1, 1, 1, 0}},
      {"no_rope_layer_interval", 4},
      {"kv_lora_rank", 512},
      {"qk_nope_head_dim", 128},
      {"swiglu_limit", 7.0},
      {"num_local_experts", 8},
      {"n_routed_experts", 64},
      {"n_shared_experts", 2},
      {"alibi", true},
      {"use_mrope", true},
      {"use_sliding_window", true},
      {"layer_types", {"full_attention", "sliding_attention"}},
      {"layer_types", {"linear_attention", "full_attention"}},
      {"use_parallel_residual", true},
      {"rope_interleaved", true},
      {"rotary_pct", 0.25},
      {"rms_norm", false},
      {"use_rope", false},
      {"is_encoder_decoder", true},
      {"hidden_activation", "gelu"},
      {"position_embedding_type", "alibi"},
      {"attention_chunk_size", 8192},
      {"attn_output_gate", true},
      {"altup_num_inputs", 4},
      {"use_moe", true},
      {"norm_type", "layernorm"},
      {"lm_head_bias", true},
      {"hybrid_override_pattern", "M-M*-"}};
  for (const char* const model : kModels) {
    for (const auto& [key, value] : foreign)
      expect_config_refused(published_config(model), key, value, "expected");
  }
}

TEST(ConfigKeys, ThatSwitchOffWhatIsComputedAreRefused) {
  expect_config_refused(published_config("qwen2.5-0.5b"), "attention_bias", false, "expected true");
  expect_config_refused(published_config("dream-7b"), "attention_bias", false, "expected true");
  expect_config_refused(published_config("qwen3-0.6b"), "use_qk_norm", false, "expected true");
  expect_config_refused(published_config("llada2-mini"), "use_qk_norm", false, "expected true");
  expect_config_refused(published_config("qwen3-0.6b"), "tie_embeddings", false, "expected true");
  expect_config_refused(published_config("gidd-3b"), "rope", false, "expected true");
  expect_config_refused(published_config("qwen2.5-0.5b"), "bias", false, "expected no such key");
  expect_config_refused(published_config("sdar-4b"), "block_causal_prompt", false, "expected true");
  expect_config_refused(published_config("llada-8b"), "use_swiglu", false, "expected true");
}

TEST(ConfigKeys, ThatRepeatWhatIsComputedPassWithoutAWord) {
  const std::vector<std::pair<const char*, std::pair<std::string, json>>> same = {
      {"qwen2.5-0.5b", {"attention_bias", true}},
      {"qwen3-0.6b", {"use_qk_norm", true}},
      {"llada-8b", {"hidden_act", "silu"}},
      {"qwen3-0.6b", {"activation", "swiglu"}},
      {"llada-8b", {"hidden_size", 4096}},
      {"llada-8b", {"num_hidden_layers", 32}},
      {"llada-8b", {"tie_word_embeddings", false}},
      {"dream-7b", {"logit_scale", 1.0}},
      {"dream-7b", {"embedding_multiplier", 1.0}},
      {"dream-7b", {"attn_logit_softcapping", 0.0}},
      {"dream-7b", {"final_logit_softcapping", false}},
      {"dream-7b", {"query_pre_attn_scalar", 128}},
      {"sdar-4b", {"block_causal_prompt", true}},
      {"gidd-3b", {"num_key_value_heads", 24}},
      {"qwen3-0.6b", {"rotary_pct", 1.0}},
      {"qwen3-0.6b", {"is_causal", true}},
      {"dream-7b", {"is_causal", false}},
      {"stable-diffcoder-8b", {"layer_norm_eps", 1e-6}}};
  for (const auto& [model, key] : same) {
    const ModelConfig config = read_json_config(with_key(published_config(model), key.first, key.second));
    EXPECT_EQ(config, read_json_config(published_config(model))) << model << ' ' << key.first;
  }
}

TEST(ConfigKeys, PassWhereAUserVouchesForThem) {
  const json config = with_key(published_config("qwen2.5-0.5b"), "attention_bias", false);
  EXPECT_NO_THROW(read_json_config(config, {}, {}, {.ignored_keys = {"attention_bias"}}));
  EXPECT_NO_THROW(read_json_config(with_key(published_config("llada-8b"), "logit_scale", 0.5), {}, {},
                                   {.ignored_keys = {"logit_scale"}}));
}

TEST(ConfigKeys, SayWhereAFileCameFrom) {
  // transformers 5 writes the first one for a model that was read from a GGUF file.
  for (const char* const key : {"_model_name_or_path", "teacher_model_name_or_path", "draft_name_or_path"})
    EXPECT_TRUE(is_bookkeeping_key(key)) << key;
}

TEST(ConfigKeys, AreNoScaleForTheWordAlone) {
  EXPECT_TRUE(switches_nothing_on("embedding_multiplier", 1.0));
  EXPECT_FALSE(switches_nothing_on("embedding_multiplier", 0.0));
  EXPECT_FALSE(switches_nothing_on("num_things", 1));
  EXPECT_TRUE(switches_nothing_on("num_things", 0));
  EXPECT_FALSE(switches_nothing_on("scale_on", true));
  for (const char* const key : {"use_gate", "use_moe", "attn_scale", "conv_kernel", "lora_rank", "bias"})
    EXPECT_FALSE(is_bookkeeping_key(key)) << key;
}

}  // namespace
}  // namespace lacuna::config_keys_test
