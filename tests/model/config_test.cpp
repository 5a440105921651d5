#include "model/config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/config_texts.h"
#include "model/parameters.h"
#include "model/random_spec.h"
#include "model/read_config.h"

namespace lacuna::config_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

// The least that each family's file must say, at small sizes.
json llada() {
  return {{"architectures", {"LLaDAModelLM"}},
          {"block_type", "llama"},
          {"layer_norm_type", "rms"},
          {"activation_type", "silu"},
          {"rope", true},
          {"d_model", 64},
          {"mlp_hidden_size", 96},
          {"n_layers", 2},
          {"n_heads", 4},
          {"vocab_size", 100},
          {"weight_tying", false},
          {"max_sequence_length", 128},
          {"rope_theta", 500000.0},
          {"mask_token_id", 99}};
}

json transformers(const std::string& architecture) {
  return {{"architectures", {architecture}}, {"hidden_size", 64},        {"num_hidden_layers", 2},
          {"num_attention_heads", 4},        {"num_key_value_heads", 2}, {"vocab_size", 100},
          {"max_position_embeddings", 128},  {"rms_norm_eps", 1e-6},     {"rope_theta", 1e6}};
}

json dense(const std::string& architecture) {
  json config = transformers(architecture);
  config["intermediate_size"] = 96;
  if (architecture == "DreamModel") config["mask_token_id"] = 99;
  return config;
}

json llada_moe() {
  json config = transformers("LLaDAMoEModelLM");
  config.update({{"model_type", "llada"},
                 {"num_experts", 8},
                 {"num_experts_per_tok", 2},
                 {"expert_intermediate_size", 32},
                 {"qk_layernorm", true},
                 {"mask_token_id", 99}});
  return config;
}

json llada2() {
  json config = transformers("LLaDA2MoeModelLM");
  config.update({{"head_dim", 32},
                 {"intermediate_size", 96},
                 {"first_k_dense_replace", 1},
                 {"num_experts", 8},
                 {"num_experts_per_tok", 2},
                 {"num_shared_experts", 1},
                 {"moe_intermediate_size", 24},
                 {"n_group", 4},
                 {"topk_group", 2},
                 {"score_function", "sigmoid"},
                 {"router_dtype", "fp32"},
                 {"norm_topk_prob", true},
                 {"moe_router_enable_expert_bias", true},
                 {"routed_scaling_factor", 2.5},
                 {"partial_rotary_factor", 0.5},
                 {"rotary_dim", 16},
                 {"use_bias", false},
                 {"use_qkv_bias", false},
                 {"pad_token_id", 92}});
  return config;
}

json qwen3_moe(const std::string& architecture) {
  json config = transformers(architecture);
  config.update({{"num_experts", 8},
                 {"num_experts_per_tok", 2},
                 {"moe_intermediate_size", 24},
                 {"intermediate_size", 96},
                 {"norm_topk_prob", true},
                 {"decoder_sparse_step", 1},
                 {"mlp_only_layers", json::array()}});
  return config;
}

json diffusion_gemma() {
  return {{"architectures", {"DiffusionGemmaForBlockDiffusion"}},
          {"model_type", "diffusion_gemma"},
          {"canvas_length", 32},
          {"tie_word_embeddings", true},
          {"eos_token_id", {1, 6}},
          {"image_token_id", 98},
          {"text_config",
           {{"model_type", "diffusion_gemma_text"},
            {"hidden_size", 64},
            {"vocab_size", 100},
            {"num_hidden_layers", 3},
            {"layer_types", {"sliding_attention", "full_attention", "sliding_attention"}},
            {"num_attention_heads", 4},
            {"num_key_value_heads", 2},
            {"head_dim", 24},
            {"num_global_key_value_heads", 1},
            {"global_head_dim", 40},
            {"sliding_window", 9},
            {"rope_parameters",
             {{"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 1e4}}},
              {"full_attention",
               {{"rope_type", "proportional"}, {"rope_theta", 1e6}, {"partial_rotary_factor", 0.25}}}}},
            {"intermediate_size", 96},
            {"moe_intermediate_size", 40},
            {"num_experts", 8},
            {"top_k_experts", 2},
            {"hidden_activation", "gelu_pytorch_tanh"},
            {"rms_norm_eps", 1e-6},
            {"max_position_embeddings", 128},
            {"final_logit_softcapping", 30.0},
            {"eos_token_id", 1}}}};
}

ModelConfig read(const json& config, const json& generation = {}, const json& tokenizer = {}) {
  const auto text = [](const json& value) { return value.is_null() ? std::string() : value.dump(); };
  const std::string texts[] = {text(config), text(generation), text(tokenizer)};
  return read_config_texts({.config = texts[0], .generation_config = texts[1], .tokenizer_config = texts[2]},
                           "folder");
}

json with(json config, const std::string& key, const json& value) {
  config[key] = value;
  return config;
}

/// "lacuna": {"paradigm": name}, as --paradigm adds it.
json as(const json& config, const std::string& paradigm) {
  return with(config, "lacuna", {{"paradigm", paradigm}});
}

/// The message names file, key and value, and what was expected.
void expect_refused(const json& base, const std::string& key, const json& value, const std::string& text) {
  EXPECT_THAT([&] { read(with(base, key, value)); },
              ThrowsMessage<InputError>(AllOf(HasSubstr("folder/config.json"), HasSubstr('"' + key),
                                              HasSubstr(text), HasSubstr("expected"))))
      << key << " = " << value;
}

TEST(Config, ReadsLlada) {
  const ModelConfig config = read(llada());
  EXPECT_EQ(config.family, "llada");
  EXPECT_EQ(config.architecture, "LLaDAModelLM");
  EXPECT_EQ(config.num_layers, 2);
  EXPECT_EQ(config.hidden_dim, 64);
  EXPECT_EQ(config.num_heads, 4);
  EXPECT_EQ(config.num_kv_heads, 4);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.ffn_dim, 96);
  EXPECT_EQ(config.vocab_size, 100);
  EXPECT_EQ(config.max_positions, 128);
  EXPECT_FLOAT_EQ(config.norm_eps, 1e-5F);
  EXPECT_EQ(config.rope.theta, 500000);
  EXPECT_EQ(config.mask_id, 99);
  EXPECT_EQ(config.eos_id, -1);
  EXPECT_THAT(config.end_ids, IsEmpty());
  EXPECT_FALSE(config.causal || config.shifted_logits || config.tied_embeddings || config.qkv_bias ||
               config.qk_norm_full || config.qk_norm_per_head || config.has_experts());
  EXPECT_EQ(config.embedding_scale, 1);
  EXPECT_EQ(config.logit_scale, 1);
}

TEST(Config, ReadsTheOptionsOfLlada) {
  EXPECT_EQ(read(with(llada(), "embedding_size", 128)).vocab_size, 128);
  EXPECT_EQ(read(with(llada(), "mlp_hidden_size", nullptr)).ffn_dim, 4 * 64);
  EXPECT_EQ(read(with(with(llada(), "mlp_hidden_size", nullptr), "mlp_ratio", 3)).ffn_dim, 3 * 64);
  EXPECT_EQ(read(with(llada(), "n_kv_heads", 2)).num_kv_heads, 2);
  EXPECT_EQ(read(with(llada(), "multi_query_attention", true)).num_kv_heads, 1);
  EXPECT_TRUE(read(with(llada(), "include_qkv_bias", true)).qkv_bias);
  EXPECT_TRUE(read(with(llada(), "attention_layer_norm", true)).qk_norm_full);
  EXPECT_TRUE(read(with(llada(), "weight_tying", true)).tied_embeddings);
  EXPECT_EQ(read(with(llada(), "input_emb_norm", true)).embedding_scale, 8);
  EXPECT_EQ(read(with(llada(), "scale_logits", true)).logit_scale, 0.125F);
}

TEST(Config, RefusesLladaVariantsThatItWouldComputeWrongly) {
  expect_refused(llada(), "activation_type", "swiglu", "is \"swiglu\"; expected \"silu\"");
  expect_refused(llada(), "block_type", "sequential", "\"llama\"");
  expect_refused(llada(), "layer_norm_type", "default", "\"rms\"");
  expect_refused(llada(), "rope", false, "is false; expected true");
  expect_refused(llada(), "rope", nullptr, "is missing; expected true");
  expect_refused(llada(), "alibi", true, "is true; expected false");
  expect_refused(llada(), "block_group_size", 2, "is 2; expected 1");
  expect_refused(llada(), "include_bias", true, "is true; expected false");
  expect_refused(llada(), "bias_for_layer_norm", true, "is true; expected false");
  expect_refused(llada(), "layer_norm_with_affine", false, "is false; expected true");
  expect_refused(llada(), "clip_qkv", 8, "is 8");
  expect_refused(llada(), "rope_scaling", {{"type", "linear"}}, "is \"linear\"; expected \"default\"");
  expect_refused(llada(), "quantization_config", {{"bits", 4}}, "quant_method\" is missing");
}

TEST(Config, OfAPackedCopySaysWhatItWasPackedFor) {
  json config = llada();
  const json packed = {
      {"quant_method", "lacuna-packed"}, {"version", 2}, {"dtype", "f32"}, {"names", "gguf"}};
  config["quantization_config"] = packed;
  const ModelConfig read = read_config_texts({.config = config.dump()}, "folder");
  EXPECT_EQ(read.packed_for, DType::kF32);
  EXPECT_TRUE(read.gguf_names);
  const auto refused = [&](const char* key, const json& value, const char* text) {
    json other = packed;
    other[key] = value;
    expect_refused(llada(), "quantization_config", other, text);
  };
  refused("version", 1, "\"quantization_config.version\" is 1; expected 2; pack the model again");
  refused("dtype", "f16", "is \"f16\"; expected f32 or bf16");
  refused("names", "mine", "is \"mine\"; expected published or gguf");
}

// The published models' config (EZ:notebooks/model_conversion.ipynb), at small sizes.
json gidd() {
  return {{"architectures", {"GiddForDiffusionLM"}},
          {"hidden_size", 64},
          {"num_hidden_layers", 8},
          {"num_attention_heads", 4},
          {"vocab_size", 100},
          {"attention_bias", true},
          {"mlp_bias", true},
          {"weight_scaling", 1.0},
          {"head_scaling", 8.0},
          {"noise_type", 1000.0}};
}

TEST(Config, ReadsGiddWithTheDefaultsOfItsClass) {
  const ModelConfig config = read(gidd());
  EXPECT_EQ(config.family, "gidd");
  EXPECT_EQ(config.num_kv_heads, 4);
  EXPECT_EQ(config.ffn_dim, 4 * 64);
  EXPECT_EQ(config.max_positions, 1024);
  EXPECT_TRUE(config.norm_offset && config.qk_norm_full && config.kv_sink &&
              config.activation == Activation::kSquaredRelu && config.ffn_bias);
  EXPECT_FALSE(config.causal || config.tied_embeddings || config.qkv_bias || config.shifted_logits);
  EXPECT_EQ(config.attn_soft_cap, 30);
  EXPECT_EQ(config.residual_scale, 0.5F);
  EXPECT_EQ(config.logit_scale, 8);
  ASSERT_TRUE(config.noise.has_value());
  EXPECT_EQ(*config.noise, (NoiseProcess{1000, -9, 9}));
  EXPECT_EQ(config.bos_id, 0);
  EXPECT_EQ(config.pad_id, 2);
  EXPECT_EQ(config.mask_id, 3);
  EXPECT_THAT(config.end_ids, ElementsAre(1));
  EXPECT_THAT(read(with(gidd(), "eos_token_id", {7, 9})).end_ids, ElementsAre(7, 9));
  EXPECT_EQ(read(with(gidd(), "bos_token_id", -1)).bos_id, -1);
  EXPECT_EQ(read(with(gidd(), "mask_token_id", 99)).mask_id, 99);
}

TEST(Config, ScalesProductsOfGiddByTheDefaultOfItsClassWhereTheFileDoesNotSay) {
  json silent = gidd();
  silent.erase("weight_scaling");
  EXPECT_EQ(read(gidd()).product_scale, ProductScale::kOne);
  EXPECT_EQ(read(silent).product_scale, ProductScale::kByInputs);
  EXPECT_EQ(read(with(gidd(), "weight_scaling", "fan_in")), read(silent));
  EXPECT_EQ(read(with(gidd(), "weight_scaling", "fan_out")).product_scale, ProductScale::kByOutputs);
  EXPECT_EQ(read(silent).logit_scale, 8) << "the head has a scale of its own";
}

TEST(Config, TakesTheLengthOfAnswersFromTheGenerationConfigFirst) {
  const json base = dense("DreamModel");
  EXPECT_EQ(read(base).max_new_tokens, 0);
  EXPECT_EQ(read(base, {{"max_new_tokens", 64}}).max_new_tokens, 64);
  EXPECT_EQ(read(with(base, "max_new_tokens", 32), {{"max_new_tokens", 64}}).max_new_tokens, 64);
  EXPECT_EQ(read(with(base, "max_new_tokens", 32)).max_new_tokens, 32);
  EXPECT_EQ(read(base, {{"max_length", 99}}).max_length, 99);
  EXPECT_EQ(read(base, {{"max_length", 99}, {"max_new_tokens", 64}}).max_length, 0);
  EXPECT_EQ(read(with(base, "max_length", 20)).max_length, 0) << "an older library's default";
  EXPECT_THAT(
      [&] {
        read(base, {{"max_new_tokens", -1}});
      },
      ThrowsMessage<InputError>(HasSubstr("folder/generation_config.json: \"max_new_tokens\" is -1")));
}

TEST(Config, ReadsTheDecodingDefaultsOfAModel) {
  const json base = dense("DreamModel");
  EXPECT_EQ(read(base, {{"alg", "origin"}, {"steps", 512}}).default_unmask, "");
  const json own = {{"lacuna", {{"unmask", "threshold=1"}, {"tokens_per_step", 2}}}};
  EXPECT_EQ(read(base, own).default_unmask, "threshold=1");
  EXPECT_EQ(read(base, own).default_tokens_per_step, 2);
  const std::vector<json> refused = {{{"lacuna", 1}},
                                     {{"lacuna", {{"steps", 4}}}},
                                     {{"lacuna", {{"unmask", 1}}}},
                                     {{"lacuna", {{"unmask", std::string(65, 'x')}}}},
                                     {{"lacuna", {{"tokens_per_step", 0}}}},
                                     {{"lacuna", {{"tokens_per_step", 1e9}}}}};
  for (const json& generation : refused) {
    EXPECT_THAT([&] { read(base, generation); },
                ThrowsMessage<InputError>(HasSubstr("folder/generation_config.json: \"lacuna")))
        << generation.dump();
  }
}

TEST(Config, RefusesGiddVariantsThatItWouldComputeWrongly) {
  expect_refused(gidd(), "weight_scaling", 0.5, "is 0.5; expected 1, \"fan_in\"");
  expect_refused(gidd(), "rope_scaling", {{"type", "yarn"}, {"factor", 2}},
                 "is \"yarn\"; expected \"default\"");
  expect_refused(gidd(), "is_causal", true, "is true; expected false");
  expect_refused(gidd(), "mask_token_id", -1, "is -1");
  expect_refused(gidd(), "max_log_snr", -20, "smaller");
}

TEST(Config, ReadsLladaMoeByItsArchitecture) {
  const ModelConfig config = read(with(with(llada_moe(), "norm_topk_prob", true), "clip_qkv", 8));
  EXPECT_EQ(config.family, "llada-moe");
  EXPECT_TRUE(config.has_experts());
  EXPECT_EQ(config.moe.num_experts, 8);
  EXPECT_EQ(config.moe.experts_per_token, 2);
  EXPECT_EQ(config.moe.expert_ffn_dim, 32);
  EXPECT_FALSE(config.moe.normalize_weights);
  EXPECT_TRUE(config.qk_norm_per_head);
  EXPECT_EQ(config.qkv_clip, 8);
  EXPECT_EQ(config.ffn_dim, 0);
  EXPECT_FALSE(config.causal || config.shifted_logits);
  EXPECT_NO_THROW(read(with(llada_moe(), "moe_layer_freq", {1, 1})));
  EXPECT_FALSE(read(llada_moe()).qkv_clip.has_value());
}

TEST(Config, KnowsTheMaskThatPublishedLladaMoeFilesMayOmit) {
  json config = with(llada_moe(), "mask_token_id", nullptr);
  EXPECT_THROW(read(config), InputError);  // 156895 would be outside this small vocabulary
  EXPECT_EQ(read(with(config, "vocab_size", 157184)).mask_id, 156895);
}

TEST(Config, RefusesLladaMoeVariantsThatItWouldComputeWrongly) {
  expect_refused(llada_moe(), "moe_layer_freq", {0, 1}, "holds 0; expected 1");
  expect_refused(llada_moe(), "moe_layer_freq", 2, "is 2; expected 1");
  expect_refused(llada_moe(), "moe_router_score_function", "sigmoid", "\"softmax\"");
  expect_refused(llada_moe(), "moe_router_enable_expert_bias", true, "expected false");
  expect_refused(llada_moe(), "routed_scaling_factor", 2.5, "is 2.5; expected 1");
  expect_refused(llada_moe(), "router_num_group", 4, "is 4; expected 1");
  expect_refused(llada_moe(), "partial_rotary_factor", 0.5, "is 0.5; expected 1");
  expect_refused(llada_moe(), "shared_expert_intermediate_size", 64, "is 64; expected 0");
  expect_refused(llada_moe(), "attention_bias", true, "expected false");
  expect_refused(llada_moe(), "hidden_act", "gelu", "\"silu\"");
  expect_refused(llada_moe(), "num_experts_per_tok", 9, "from 1 to 8");
}

TEST(Config, ReadsDream) {
  const ModelConfig config = read(dense("DreamModel"));
  EXPECT_EQ(config.family, "dream");
  EXPECT_TRUE(config.shifted_logits);
  EXPECT_TRUE(config.qkv_bias);
  EXPECT_FALSE(config.attn_output_bias || config.causal || config.qk_norm_per_head);
  EXPECT_EQ(config.num_kv_heads, 2);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.rope.theta, 1e6F);
  expect_refused(dense("DreamModel"), "rope_scaling", {{"type", "longrope"}}, "is \"longrope\"");
  EXPECT_EQ(read(with(dense("DreamModel"), "rope_scaling", {{"type", "linear"}, {"factor", 2}})).rope.factor,
            2);
  expect_refused(dense("DreamModel"), "use_sliding_window", true, "expected false");
  expect_refused(dense("DreamModel"), "use_mrope", true, "expected false");
  expect_refused(dense("DreamModel"), "mask_token_id", nullptr, "is missing");
}

TEST(Config, ReadsQwen) {
  const ModelConfig qwen2 = read(with(dense("Qwen2ForCausalLM"), "tie_word_embeddings", true));
  EXPECT_EQ(qwen2.family, "qwen2");
  EXPECT_TRUE(qwen2.causal && qwen2.qkv_bias && qwen2.tied_embeddings);
  EXPECT_FALSE(qwen2.qk_norm_per_head || qwen2.attn_output_bias || qwen2.shifted_logits);
  EXPECT_EQ(qwen2.head_dim, 16);
  EXPECT_EQ(qwen2.mask_id, -1);

  const ModelConfig qwen3 = read(dense("Qwen3ForCausalLM"));
  EXPECT_EQ(qwen3.family, "qwen3");
  EXPECT_TRUE(qwen3.causal && qwen3.qk_norm_per_head);
  EXPECT_FALSE(qwen3.qkv_bias || qwen3.tied_embeddings);
  EXPECT_EQ(qwen3.head_dim, 128);
  EXPECT_EQ(qwen3.q_dim(), 512);
  EXPECT_EQ(qwen3.kv_dim(), 256);

  const ModelConfig refusion =
      read(as(with(with(dense("Qwen3ForCausalLM"), "head_dim", 32), "mask_token_id", 98), "slots"));
  EXPECT_EQ(refusion.head_dim, 32);
  EXPECT_EQ(refusion.mask_id, 98);
  EXPECT_TRUE(read(with(dense("Qwen3ForCausalLM"), "attention_bias", true)).attn_output_bias);
  EXPECT_NO_THROW(read(with(dense("Qwen3ForCausalLM"), "layer_types", {"full_attention", "full_attention"})));
}

TEST(Config, ReadsSdarAndFindsItsMaskWhereverItIsNamed) {
  const ModelConfig trained =
      read(with(with(dense("SDARForCausalLM"), "mask_token_id", 98), "block_size", 16));
  EXPECT_EQ(trained.family, "sdar");
  EXPECT_TRUE(trained.block_causal && trained.qk_norm_per_head);
  EXPECT_FALSE(trained.causal || trained.plans_slots || trained.shifted_logits);
  EXPECT_EQ(trained.block_length, 16);
  EXPECT_EQ(trained.mask_id, 98);

  const std::string hub = dense("SDARForCausalLM").dump();
  const std::string tokenizer = R"({"added_tokens_decoder": {"97": {"content": "<|MASK|>"}}})";
  EXPECT_EQ(read_config_texts({.config = hub, .tokenizer_config = tokenizer}, "hub").mask_id, 97);
  EXPECT_THROW(read_config_texts({.config = hub}, "hub"), InputError);
}

TEST(Config, ReadsIdlmUnderSdarsClass) {
  const json base = with(dense("SDARForCausalLM"), "mask_token_id", 98);
  expect_refused(base, "block_size", 3, "--paradigm causal runs the file as I-DLM is run");
  EXPECT_EQ(read(as(with(base, "block_size", 3), "blocks")).block_length, 3);
  const json named = with(base, "_name_or_path", "yifanyu/I-DLM-8B");
  for (const json& file : {named, with(named, "block_size", 3), as(with(base, "block_size", 3), "causal")}) {
    const ModelConfig config = read(file);
    EXPECT_EQ(config.paradigm(), Paradigm::kCausal);
    EXPECT_EQ(config.mask_drafts, 3);
    EXPECT_EQ(config.mask_id, 98);
    EXPECT_EQ(config.block_length, 0);
  }
  EXPECT_EQ(read(with(named, "block_size", 5)).mask_drafts, 5);
  EXPECT_EQ(read(base).mask_drafts, 0);
  EXPECT_THAT([&] { read(with(named, "mask_token_id", nullptr)); },
              ThrowsMessage<InputError>(HasSubstr("mask_token_id")));
}

TEST(Config, ReadsSdlm) {
  const json base = with(dense("SDLMQwen2ForCausalLM"), "text_mask_token_id", 98);
  const ModelConfig config = read(with(with(base, "block_size", 8), "causal_attn", false));
  EXPECT_EQ(config.paradigm(), Paradigm::kCausal);
  EXPECT_TRUE(config.causal && config.drafts_see_each_other && config.qkv_bias);
  EXPECT_FALSE(config.attn_output_bias || config.qk_norm_per_head);
  EXPECT_EQ(config.mask_drafts, 7);
  EXPECT_EQ(config.mask_id, 98);
  EXPECT_EQ(read(base).mask_drafts, 3);
  expect_refused(base, "causal_attn", true, "\"causal_attn\" is true");
  expect_refused(base, "casual_attn", true, "\"casual_attn\" is true");
  EXPECT_THROW(read(with(base, "block_size", 1)), InputError);
  EXPECT_THROW(read(with(base, "text_mask_token_id", nullptr)), InputError);
  EXPECT_FALSE(read(dense("Qwen2ForCausalLM")).drafts_see_each_other);
}

TEST(Config, ReadsFastDllm) {
  json published = dense("Fast_dLLM_QwenForCausalLM");
  published.update({{"bd_size", 32}, {"conplemenrary_mask", true}, {"eos_token_id", 45}});
  const json tokenizer = {{"added_tokens_decoder", {{"98", {{"content", "|<MASK>|"}}}}}};
  const ModelConfig config = read(published, {}, tokenizer);
  EXPECT_EQ(config.family, "fast-dllm");
  EXPECT_TRUE(config.block_causal && config.qkv_bias && config.shifted_logits);
  EXPECT_FALSE(config.causal || config.plans_slots || config.qk_norm_per_head || config.attn_output_bias);
  EXPECT_EQ(config.block_length, 32);
  EXPECT_EQ(config.sub_block_length, 8);
  EXPECT_EQ(config.mask_id, 98);
  EXPECT_THAT(config.end_ids, ElementsAre(45));
  EXPECT_EQ(read(with(published, "small_block_size", 16), {}, tokenizer).sub_block_length, 16);
  EXPECT_EQ(read(with(published, "bd_size", 4), {}, tokenizer).sub_block_length, 4);
  EXPECT_EQ(read(with(published, "mask_token_id", 97)).mask_id, 97);
  EXPECT_THROW(read(with(published, "mask_token_id", 97), {}, tokenizer), InputError)
      << "98 by the tokenizer";

  expect_refused(with(published, "mask_token_id", 98), "small_block_size", 33, "from 1 to 32");
  expect_refused(with(published, "mask_token_id", 98), "bd_size", 0, "from 1 to");
  EXPECT_THAT([&] { read(published); },
              ThrowsMessage<InputError>(AllOf(HasSubstr("mask_token_id"), HasSubstr("|<MASK>|"))));
}

TEST(Config, ReadsLlada2) {
  const json tokenizer = {
      {"added_tokens_decoder", {{"95", {{"content", "<|mask|>"}}}, {"93", {{"content", "<|role_end|>"}}}}}};
  const ModelConfig config = read(llada2(), {}, tokenizer);
  EXPECT_EQ(config.family, "llada2");
  EXPECT_TRUE(config.block_causal && config.qk_norm_per_head);
  EXPECT_FALSE(config.causal || config.shifted_logits || config.qkv_bias || config.attn_output_bias);
  EXPECT_EQ(config.block_length, 32);
  EXPECT_EQ(config.sub_block_length, 0);
  EXPECT_EQ(config.head_dim, 32);
  EXPECT_EQ(config.rotary_dim, 16);
  EXPECT_EQ(config.ffn_dim, 96);
  EXPECT_EQ(config.moe.num_experts, 8);
  EXPECT_EQ(config.moe.experts_per_token, 2);
  EXPECT_EQ(config.moe.expert_ffn_dim, 24);
  EXPECT_EQ(config.moe.shared_ffn_dim, 24);
  EXPECT_EQ(config.moe.first_dense_layers, 1);
  EXPECT_EQ(config.moe.num_groups, 4);
  EXPECT_EQ(config.moe.groups_per_token, 2);
  EXPECT_EQ(config.moe.routed_scale, 2.5F);
  EXPECT_TRUE(config.moe.sigmoid_scores && config.moe.selection_bias && config.moe.normalize_weights &&
              config.moe.router_in_f32);
  EXPECT_FALSE(config.layer_has_experts(0));
  EXPECT_TRUE(config.layer_has_experts(1));
  EXPECT_EQ(config.num_expert_layers(), 1);
  EXPECT_EQ(config.mask_id, 95);
  EXPECT_EQ(config.eos_id, 92) << "config.json names the end of text as padding alone";
  EXPECT_THAT(config.end_ids, ElementsAre(92, 93));
}

TEST(Config, ReadsTheOptionsOfLlada2) {
  const json base = with(llada2(), "mask_token_id", 95);
  EXPECT_EQ(read(with(base, "block_length", 16)).block_length, 16);
  EXPECT_EQ(read(with(base, "block_size", 8)).block_length, 8);
  EXPECT_EQ(read(with(base, "eos_token_id", 91)).eos_id, 91);
  EXPECT_EQ(read(with(base, "num_shared_experts", 2)).moe.shared_ffn_dim, 48);
  EXPECT_EQ(read(with(base, "num_shared_experts", nullptr)).moe.shared_ffn_dim, 0);
  EXPECT_EQ(read(with(with(base, "rotary_dim", nullptr), "partial_rotary_factor", 0.75)).rotary_dim, 24);
  EXPECT_FALSE(read(with(base, "num_experts_per_tok", 1)).moe.normalize_weights);
  EXPECT_TRUE(read(with(base, "use_qkv_bias", true)).qkv_bias);
  EXPECT_TRUE(read(with(base, "use_bias", true)).attn_output_bias);
  const ModelConfig all_experts =
      read(with(with(base, "first_k_dense_replace", 0), "intermediate_size", nullptr));
  EXPECT_EQ(all_experts.num_expert_layers(), 2);
  EXPECT_EQ(all_experts.ffn_dim, 0);
  EXPECT_EQ(read(with(base, "first_k_dense_replace", 5)).num_expert_layers(), 0);
}

TEST(Config, ReadsTheWindowsAndTheEditTokensOfLlada22) {
  json config = with(llada2(), "mask_token_id", 95);
  config.update({{"expert_capacity", 4}, {"block_size", 8}, {"delete_token_id", 96}, {"split_token_id", 97}});
  const ModelConfig read_back = read(config);
  EXPECT_EQ(read_back.moe.window, 8);
  EXPECT_EQ(read_back.moe.experts_per_window, 4);
  EXPECT_EQ(read_back.moe.num_groups, 1) << "n_group means nothing";
  EXPECT_EQ(read_back.block_length, 32) << "block_size is that of the windows";
  EXPECT_EQ(read_back.delete_id, 96);
  EXPECT_EQ(read_back.split_id, 97);
  EXPECT_EQ(read(with(config, "block_length", 16)).block_length, 16);
  EXPECT_EQ(read(with(config, "block_size", 24)).block_length, 48) << "whole windows";

  json newer = config;
  const json theta = newer["rope_theta"];
  newer.erase("rope_theta");
  newer.erase("partial_rotary_factor");
  newer["rope_parameters"] = {
      {"rope_type", "default"}, {"rope_theta", theta}, {"partial_rotary_factor", 0.5}};
  EXPECT_EQ(read(newer).rope, read_back.rope);

  expect_refused(config, "split_token_id", nullptr, "a token as well");
  expect_refused(config, "delete_token_id", nullptr, "a token as well");
  expect_refused(config, "split_token_id", 96, "another token than");
  expect_refused(config, "split_token_id", 95, "neither of them the mask, 95");
  expect_refused(config, "delete_token_id", 95, "neither of them the mask, 95");
  expect_refused(config, "expert_capacity", 1, "expected 2 to 8");
  expect_refused(config, "expert_capacity", 9, "from 0 to 8");
  expect_refused(config, "block_length", 12, "a multiple of");
}

TEST(Config, ReadsLlamaAndWhatWasMadeFromIt) {
  json config = dense("LlamaForCausalLM");
  config["model_type"] = "llama";
  const ModelConfig llama = read(config);
  EXPECT_EQ(llama.paradigm(), Paradigm::kCausal);
  EXPECT_FALSE(llama.qkv_bias || llama.attn_output_bias || llama.qk_norm_per_head);
  const ModelConfig biased = read(with(config, "attention_bias", true));
  EXPECT_TRUE(biased.qkv_bias && biased.attn_output_bias);
  expect_refused(config, "mlp_bias", true, "expected false");
  expect_refused(config, "mask_token_id", 5, "null or no such key");

  config["architectures"] = {"StableDiffcoderForCausalLM"};
  config["vocab_size"] = 155136;
  const ModelConfig coder = read(config);
  EXPECT_EQ(coder.paradigm(), Paradigm::kBlocks);
  EXPECT_EQ(coder.block_length, 4);
  EXPECT_EQ(coder.mask_id, 5) << "the published one, which no key names";
  EXPECT_EQ(read(with(config, "mask_token_id", 9)).mask_id, 9);
}

TEST(Config, FindsDreamOnsTokensWhereverTheyAreNamed) {
  const json tokenizer = {{"added_tokens_decoder", {{"97", {{"content", "<|expand|>"}}}}}};
  const json plain = with(dense("DreamModel"), "eos_token_id", 3);
  EXPECT_EQ(read(plain).expand_id, -1);
  EXPECT_EQ(read(plain).delete_id, -1);
  EXPECT_EQ(read(plain, {}, tokenizer).expand_id, 97);
  EXPECT_EQ(read(plain, {}, tokenizer).delete_id, 3) << "the end of the text deletes";
  EXPECT_EQ(read(plain, {{"delete_token_id", 11}}, tokenizer).delete_id, 11);
  const json named = with(with(plain, "expand_token_id", 12), "delete_token_id", 13);
  EXPECT_EQ(read(named, {{"delete_token_id", 11}}).expand_id, 12);
  EXPECT_EQ(read(named, {{"delete_token_id", 11}}).delete_id, 13) << "config.json is asked first";
  EXPECT_THROW(read(named, {}, tokenizer), InputError) << "97 by the tokenizer";
  EXPECT_EQ(read(plain, {{"delete_token_id", 11}}).delete_id, -1) << "nothing expands";
  EXPECT_THAT([&] { read(with(with(plain, "expand_token_id", 12), "delete_token_id", 12)); },
              ThrowsMessage<InputError>(HasSubstr("expected two")));
  EXPECT_THAT([&] { read(with(with(plain, "mask_token_id", 98), "expand_token_id", 98)); },
              ThrowsMessage<InputError>(HasSubstr("neither of them the mask")));
}

TEST(Config, RefusesLlada2VariantsThatItWouldComputeWrongly) {
  const json base = with(llada2(), "mask_token_id", 95);
  expect_refused(base, "score_function", "softmax", "is \"softmax\"; expected \"sigmoid\"");
  expect_refused(base, "norm_topk_prob", false, "is false; expected true");
  expect_refused(base, "router_dtype", "bf16", "\"fp32\"");
  expect_refused(base, "norm_head", true, "expected false");
  expect_refused(base, "use_sliding_window", true, "expected false");
  expect_refused(base, "rope_scaling", {{"type", "mrope"}}, "is \"mrope\"");
  EXPECT_NO_THROW(read(with(base, "hidden_act", "swish")));
  expect_refused(base, "hidden_act", "gelu", "\"silu\"");
  expect_refused(base, "n_group", 3, "a divisor of the 8 experts");
  expect_refused(base, "n_group", 8, "at least 2 in a group");
  expect_refused(base, "topk_group", 5, "from 1 to 4");
  expect_refused(with(base, "num_experts_per_tok", 3), "topk_group", 1, "groups with 3 experts or more");
  expect_refused(base, "num_experts_per_tok", 9, "from 1 to 8");
  expect_refused(base, "rotary_dim", 32, "is 32; expected 16");
  expect_refused(base, "partial_rotary_factor", 1.5, "expected a number from 0 to 1");
  expect_refused(base, "moe_intermediate_size", nullptr, "is missing");
  expect_refused(base, "intermediate_size", nullptr, "is missing");
  expect_refused(base, "routed_scaling_factor", 0, "expected a number");
  EXPECT_THAT([&] { read(with(with(base, "rotary_dim", nullptr), "partial_rotary_factor", 0.1)); },
              ThrowsMessage<InputError>(
                  HasSubstr("RoPE turns 3 of 32 dimensions (\"head_dim\"); expected an even number")));
  EXPECT_THAT([&] { read(with(with(base, "num_shared_experts", 4096), "moe_intermediate_size", 1 << 20)); },
              ThrowsMessage<InputError>(HasSubstr("shared experts have width 4294967296")));
  EXPECT_THAT([] { read(llada2()); },
              ThrowsMessage<InputError>(AllOf(HasSubstr("mask_token_id"), HasSubstr("<|mask|>"))));
}

TEST(Config, ReadsQwen3WithExperts) {
  const ModelConfig config = read(qwen3_moe("Qwen3MoeForCausalLM"));
  EXPECT_EQ(config.family, "qwen3-moe");
  EXPECT_EQ(config.paradigm(), Paradigm::kCausal);
  EXPECT_TRUE(config.qk_norm_per_head && config.moe.normalize_weights);
  EXPECT_FALSE(config.moe.sigmoid_scores || config.moe.selection_bias || config.qkv_bias);
  EXPECT_EQ(config.ffn_dim, 0);
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_EQ(config.moe.num_experts, 8);
  EXPECT_EQ(config.moe.experts_per_token, 2);
  EXPECT_EQ(config.moe.expert_ffn_dim, 24);
  EXPECT_EQ(config.num_expert_layers(), 2);
  EXPECT_FALSE(read(with(qwen3_moe("Qwen3MoeForCausalLM"), "norm_topk_prob", nullptr)).moe.normalize_weights)
      << "the class's default";
}

TEST(Config, ReadsTheDiffusionModelsMadeFromQwen3WithExperts) {
  const ModelConfig sdar =
      read(with(with(qwen3_moe("SDARMoeForCausalLM"), "mask_token_id", 98), "block_size", 8));
  EXPECT_EQ(sdar.paradigm(), Paradigm::kBlocks);
  EXPECT_EQ(sdar.block_length, 8);
  EXPECT_FALSE(sdar.shifted_logits);
  const json tokenizer = {{"added_tokens_decoder", {{"97", {{"content", "<|MASK|>"}}}}}};
  EXPECT_EQ(read(qwen3_moe("SDARMoeForCausalLM"), {}, tokenizer).mask_id, 97);
  EXPECT_EQ(read(qwen3_moe("SDARMoeForCausalLM"), {}, tokenizer).block_length, 4);

  json rnd1 = with(with(qwen3_moe("RND1LM"), "mask_token_id", 98), "model_type", "rnd1");
  rnd1.update({{"rope_scaling", false}, {"sliding_window", false}, {"num_diffusion_steps", 256}});
  EXPECT_EQ(read(rnd1).paradigm(), Paradigm::kMasked);
  EXPECT_EQ(read(with(rnd1, "num_diffusion_steps", 64)).diffusion_steps, 64);
  rnd1.erase("num_diffusion_steps");
  EXPECT_EQ(read(rnd1).diffusion_steps, 256) << "the class's default";
  EXPECT_TRUE(read(rnd1).shifted_logits && read(rnd1).qk_norm_per_head && read(rnd1).moe.normalize_weights);
}

TEST(Config, RefusesExpertsThatItWouldComputeWrongly) {
  for (const char* const architecture : {"Qwen3MoeForCausalLM", "SDARMoeForCausalLM", "RND1LM"}) {
    json base = qwen3_moe(architecture);
    if (base["architectures"][0] != "Qwen3MoeForCausalLM") base["mask_token_id"] = 98;
    expect_refused(base, "decoder_sparse_step", 2, "is 2; expected 1");
    expect_refused(base, "mlp_only_layers", {1}, "experts in every layer");
    expect_refused(base, "num_experts_per_tok", 9, "from 1 to 8");
    expect_refused(base, "shared_expert_intermediate_size", 64, "is 64; expected 0");
    expect_refused(base, "hidden_act", "gelu", "\"silu\"");
    expect_refused(base, "use_sliding_window", true, "expected false");
  }
  expect_refused(qwen3_moe("Qwen3MoeForCausalLM"), "mask_token_id", 98, "\"mask_token_id\" is 98");
  expect_refused(with(qwen3_moe("SDARMoeForCausalLM"), "mask_token_id", 98), "norm_topk_prob", nullptr,
                 "is missing");
  expect_refused(with(qwen3_moe("RND1LM"), "mask_token_id", 98), "rope_scaling", {{"type", "su"}},
                 "is \"su\"");
}

TEST(Config, IgnoresWhatCodasTrainingMasks) {
  json file = with(with(dense("CoDALanguageModel"), "mask_token_id", 98), "model_type", "CoDA");
  file.update({{"mask_block_sizes", {2, 4, 8}},
               {"block_masking_probability", 0.2},
               {"prefix_probability", 0.1},
               {"truncate_probability", 0.1},
               {"sampling_eps", 0.001},
               {"masking_scheduler", {{"schedule_type", "constant"}}}});
  EXPECT_EQ(read(file).mask_id, 98);
}

TEST(Config, ReadsCoda) {
  const ModelConfig config =
      read(with(with(dense("CoDALanguageModel"), "mask_token_id", 98), "model_type", "CoDA"));
  EXPECT_EQ(config.paradigm(), Paradigm::kMasked);
  EXPECT_TRUE(config.shifted_logits && config.qk_norm_per_head);
  EXPECT_FALSE(config.causal || config.plans_slots || config.qkv_bias);
  expect_refused(dense("CoDALanguageModel"), "mask_token_id", nullptr, "is missing");
}

TEST(Config, TurnsWholeHeadsUnlessTheFileSaysOtherwise) {
  EXPECT_EQ(read(dense("Qwen2ForCausalLM")).rotary_dim, 16);
  EXPECT_EQ(read(dense("Qwen3ForCausalLM")).rotary_dim, 128);
}

TEST(Config, TakesAQwen3ModelForReFusionWhereItSaysSo) {
  const json base = with(dense("Qwen3ForCausalLM"), "mask_token_id", 98);
  expect_refused(dense("Qwen3ForCausalLM"), "mask_token_id", 98,
                 "--paradigm slots runs it as ReFusion is run, --paradigm causal without its mask");
  EXPECT_EQ(read(with(base, "model_type", "refusion")).paradigm(), Paradigm::kSlots);
  EXPECT_EQ(read(with(base, "_name_or_path", "GSAI-ML/ReFusion")).paradigm(), Paradigm::kSlots);
  const json classes = {{"AutoModelForCausalLM", "modeling_refusion.Qwen3ForCausalLM"}};
  EXPECT_EQ(read(with(base, "auto_map", classes)).paradigm(), Paradigm::kSlots);
  const json published = with(with(base, "vocab_size", 151671), "mask_token_id", 151670);
  EXPECT_EQ(read(published).paradigm(), Paradigm::kSlots);
  EXPECT_EQ(read(as(base, "slots")).paradigm(), Paradigm::kSlots);
  EXPECT_EQ(read(as(base, "slots")).mask_id, 98);
  EXPECT_EQ(read(as(base, "causal")).paradigm(), Paradigm::kCausal);
  EXPECT_EQ(read(as(base, "causal")).mask_id, -1);
  EXPECT_EQ(read(dense("Qwen3ForCausalLM")).paradigm(), Paradigm::kCausal);
}

TEST(Config, TurnsLladaAndDreamIntoBlocksBehindAPromptWhereAUserSaysSo) {
  const json dream = published_config("dream-7b");
  for (const json& published : {llada(), dream}) {
    EXPECT_FALSE(read(published).block_causal);
    EXPECT_FALSE(read(as(published, "masked")).block_causal);
    const ModelConfig config = read(as(published, "blocks"));
    EXPECT_EQ(config.paradigm(), Paradigm::kBlocks);
    EXPECT_TRUE(config.whole_prompt);
    EXPECT_EQ(config.block_length, 32);
    EXPECT_EQ(config.shifted_logits, published == dream);
    EXPECT_EQ(config.mask_id, read(published).mask_id);
  }
  EXPECT_THAT([] { read(as(published_config("dreamon-7b"), "blocks")); },
              ThrowsMessage<InputError>(HasSubstr("expected --paradigm masked")));
}

TEST(Config, RefusesAParadigmThatTheArchitectureDoesNotHave) {
  const auto expect = [](const json& config, const std::string& text) {
    EXPECT_THAT([&] { read(config); },
                ThrowsMessage<InputError>(AllOf(HasSubstr("\"lacuna.paradigm\""), HasSubstr(text))));
  };
  expect(as(llada(), "causal"), "expected masked or blocks");
  expect(as(dense("Qwen3ForCausalLM"), "slots"), "expected \"causal\"");  // without a mask
  expect(as(dense("Qwen3ForCausalLM"), "masked"), "expected causal or slots");
  expect(as(dense("A2DQwen3LMHeadModel"), "any"), "expected masked or blocks");
  EXPECT_EQ(read(as(llada(), "masked")).paradigm(), Paradigm::kMasked);
  EXPECT_THAT(
      [] {
        read(with(llada(), "lacuna", {{"unmask", "entropy"}}));
      },
      ThrowsMessage<InputError>(HasSubstr("\"lacuna.unmask\"")));
}

TEST(Config, RunsOpenDcoderAsAMaskedModelAndNoOtherQwen2) {
  const json base = dense("Qwen2ForCausalLM");
  const json tokenizer = {{"added_tokens_decoder", {{"97", {{"content", "<M>"}}}}}};
  const ModelConfig coder = read(as(base, "masked"), {}, tokenizer);
  EXPECT_EQ(coder.paradigm(), Paradigm::kMasked);
  EXPECT_TRUE(coder.shifted_logits && coder.qkv_bias);
  EXPECT_EQ(coder.mask_id, 97);
  EXPECT_EQ(read(with(base, "_name_or_path", "fredzzp/open-dcoder-0.5B"), {}, tokenizer).mask_id, 97);
  EXPECT_THAT([&] { read(base, {}, tokenizer); },
              ThrowsMessage<InputError>(AllOf(HasSubstr("folder/tokenizer_config.json: token 97 is a mask"),
                                              HasSubstr("--paradigm masked"))));
  EXPECT_EQ(read(as(base, "causal"), {}, tokenizer).mask_id, -1);
  expect_refused(base, "mask_token_id", 98, "--paradigm masked");
  EXPECT_THAT([&] { read(as(base, "masked")); },
              ThrowsMessage<InputError>(HasSubstr("a token <M> or [MASK] in tokenizer.json or")));
}

TEST(Config, AsksHowATinyA2dModelWasTrainedUnlessItsNameSays) {
  const json tokenizer = {{"added_tokens_decoder", {{"97", {{"content", "<|mask|>"}}}}}};
  const std::string token_text = tokenizer.dump();
  for (const char* const architecture : {"A2DQwen2LMHeadModel", "A2DQwen3LMHeadModel"}) {
    const json base = dense(architecture);
    EXPECT_THAT(
        [&] { read(base, {}, tokenizer); },
        ThrowsMessage<InputError>(HasSubstr("--paradigm masked (MDLM) or --paradigm blocks (BD3LM)")));
    const ModelConfig masked = read(as(base, "masked"), {}, tokenizer);
    EXPECT_EQ(masked.paradigm(), Paradigm::kMasked);
    EXPECT_FALSE(masked.shifted_logits);
    EXPECT_EQ(masked.mask_id, 97);
    const ModelConfig blocks = read(as(base, "blocks"), {}, tokenizer);
    EXPECT_EQ(blocks.paradigm(), Paradigm::kBlocks);
    EXPECT_EQ(blocks.block_length, 32);
    const auto in = [&](const char* folder) {
      return read_config_texts({.config = base.dump(), .tokenizer_config = token_text}, folder).paradigm();
    };
    EXPECT_EQ(in("hub/models--dllm-hub--Qwen3-0.6B-diffusion-mdlm-v0.1/snapshots/0a1b"), Paradigm::kMasked);
    EXPECT_EQ(in("bd3lm/Qwen3-0.6B-diffusion-MDLM"), Paradigm::kMasked) << "the folder's own name decides";
    EXPECT_EQ(in("Qwen3-0.6B-diffusion-bd3lm-v0.1"), Paradigm::kBlocks);
    EXPECT_THROW(in("mdlm-or-bd3lm"), InputError);
  }
}

TEST(Config, RefusesQwenVariantsThatItWouldComputeWrongly) {
  for (const std::string architecture : {"Qwen2ForCausalLM", "Qwen3ForCausalLM"}) {
    const json base = dense(architecture);
    expect_refused(base, "use_sliding_window", true, "expected false");
    expect_refused(base, "layer_types", {"full_attention", "sliding_attention"},
                   "holds \"sliding_attention\"");
    expect_refused(base, "hidden_act", "relu", "\"silu\"");
    expect_refused(base, "rope_scaling", {{"rope_type", "longrope"}, {"factor", 8}},
                   "rope_scaling.rope_type");
    expect_refused(base, "rope_scaling", {{"type", "mrope"}, {"factor", 8}}, "rope_scaling.type");
    expect_refused(base, "rope_scaling", {{"rope_type", "llama3"}, {"factor", 8}},
                   "rope_scaling.low_freq_factor");
    EXPECT_EQ(read(with(base, "rope_theta", nullptr)).rope.theta, 10000) << "the default of the class";
  }
}

TEST(Config, ReadsRopeScalingInOldAndNewFiles) {
  const json base = dense("Qwen3ForCausalLM");
  const RopeConfig linear = read(with(base, "rope_scaling", {{"type", "linear"}, {"factor", 2.0}})).rope;
  EXPECT_EQ(linear.scaling, RopeConfig::Scaling::kLinear);
  EXPECT_EQ(linear.factor, 2);
  EXPECT_EQ(linear.theta, 1e6F);

  json newer = with(base, "rope_theta", nullptr);
  newer["rope_parameters"] = {{"rope_type", "yarn"},
                              {"factor", 4.0},
                              {"original_max_position_embeddings", 32768},
                              {"rope_theta", 5e6}};
  const RopeConfig yarn = read(newer).rope;
  EXPECT_EQ(yarn.scaling, RopeConfig::Scaling::kYarn);
  EXPECT_EQ(yarn.theta, 5e6F);
  EXPECT_EQ(yarn.original_positions, 32768);
  EXPECT_EQ(yarn.beta_fast, 32);
  EXPECT_NEAR(yarn.attention_scaling, 0.1 * std::log(4.0) + 1, 1e-6);

  EXPECT_EQ(read(with(base, "rope_scaling", {{"rope_type", "default"}})).rope.scaling,
            RopeConfig::Scaling::kNone);
}

TEST(Config, CollectsTheTokensThatEndAnAnswer) {
  const json generation = {{"eos_token_id", {7, 3}}, {"mask_token_id", nullptr}};
  const json tokenizer = {
      {"added_tokens_decoder", {{"5", {{"content", "<|im_end|>"}}}, {"6", {{"content", "<|im_start|>"}}}}}};
  json base = with(dense("DreamModel"), "eos_token_id", 3);
  base["bos_token_id"] = -1;
  base["pad_token_id"] = 3;
  const ModelConfig config = read(base, generation, tokenizer);
  EXPECT_EQ(config.eos_id, 3);
  EXPECT_EQ(config.pad_id, 3);
  EXPECT_EQ(config.bos_id, -1);
  EXPECT_EQ(config.mask_id, 99);
  EXPECT_THAT(config.end_ids, ElementsAre(3, 5, 7));
}

TEST(Config, RefusesTokensOutsideTheVocabulary) {
  const json base = dense("DreamModel");
  expect_refused(base, "mask_token_id", 100, "is 100; expected an integer from -1 to 99");
  expect_refused(base, "mask_token_id", -1, "is -1");
  expect_refused(base, "eos_token_id", {3, 100}, "is 100");
  expect_refused(base, "pad_token_id", 4294967296, "is 4294967296");
  EXPECT_THAT(
      [&] {
        read(base, {{"eos_token_id", 100}});
      },
      ThrowsMessage<InputError>(HasSubstr("folder/generation_config.json: \"eos_token_id\" is 100")));
  EXPECT_THAT(
      [&] {
        read(base, {}, {{"added_tokens_decoder", {{"1e9", {{"content", "<|eot_id|>"}}}}}});
      },
      ThrowsMessage<InputError>(
          HasSubstr("folder/tokenizer_config.json: the token \"<|eot_id|>\" has no id from 0 to")));
}

TEST(Config, RefusesSizesThatAreNotCounts) {
  for (const json& value : {json(0), json(-1), json(2.5), json("2"), json(true), json(uint64_t{1} << 63),
                            json(nullptr), json(int64_t{1} << 40), json::array({2})}) {
    for (const char* key : {"hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                            "vocab_size", "max_position_embeddings"}) {
      expect_refused(dense("Qwen2ForCausalLM"), key, value, "expected an integer from 1 to");
    }
  }
  for (const json& value : {json(0), json(-1e-6), json("1e-6"), json(1e300), json(nullptr)}) {
    expect_refused(dense("Qwen2ForCausalLM"), "rms_norm_eps", value, "expected a number from");
    expect_refused(dense("DreamModel"), "rope_theta", value, "expected a number from");
  }
  expect_refused(dense("Qwen2ForCausalLM"), "tie_word_embeddings", 1, "is 1; expected true or false");
}

TEST(Config, RefusesSizesThatDoNotFitEachOther) {
  const auto message_of = [](const json& config) -> std::string {
    try {
      read(config);
      return "accepted";
    } catch (const InputError& error) {
      return error.what();
    }
  };
  const json base = dense("Qwen2ForCausalLM");
  EXPECT_EQ(message_of(with(base, "num_attention_heads", 6)),
            "folder/config.json: 6 heads split a hidden width of 64; expected a divisor, or \"head_dim\"");
  EXPECT_EQ(message_of(with(base, "num_key_value_heads", 3)),
            "folder/config.json: \"num_key_value_heads\" is 3; expected a divisor of the number of heads, 4");
  EXPECT_EQ(
      message_of(with(base, "head_dim", 15)),
      "folder/config.json: heads have width 15 (\"head_dim\"); expected an even width, as RoPE turns pairs");
  EXPECT_EQ(message_of(with(base, "head_dim", 1 << 20)),
            "folder/config.json: 4 heads of width 1048576; expected at most 1048576 together");
  json wide = with(with(llada(), "mlp_hidden_size", nullptr), "d_model", 1 << 20);
  EXPECT_EQ(message_of(wide),
            "folder/config.json: feed-forward layers have width 4194304; expected at most 1048576");
}

TEST(Config, AnswersAnUnknownArchitectureWithTheSupportedOnes) {
  const std::string list = "LLaDAModelLM, LLaDAMoEModelLM, DreamModel, Qwen2ForCausalLM, Qwen3ForCausalLM";
  expect_refused(llada(), "architectures", {"GPT2LMHeadModel"},
                 "is [\"GPT2LMHeadModel\"]; expected one of " + list);
  const std::pair<const char*, const char*> known[] = {
      {"WeDLMForCausalLM", "WeDLM, whose sliding window"},
      {"DiffEncoderModel", "Nemotron-Diffusion-Research, whose sampler"},
      {"PanguEmbeddedForCausalLM", "openPangu-R-7B-Diffusion, whose blocks"},
      {"Lfm2BidirectionalForMaskedLM", "LFM2.5-Encoder, whose short convolutions"},
      {"NemotronHTwoTowerForCausalLM", "Nemotron TwoTower, whose Mamba-2 layers"},
      {"SteerlingForCausalLM", "Steerling, whose layers of concepts"},
      {"TridaForDLM", "Trida, of which neither config.json"}};
  for (const auto& [name, reason] : known)
    expect_refused(llada(), "architectures", {name}, fmt::format("is [\"{}\"]: {}", name, reason));
  expect_refused(llada(), "architectures", nullptr, "is []; expected one of " + list);
  expect_refused(llada(), "architectures", "LLaDAModelLM", "expected a list of texts");
  expect_refused(llada(), "architectures", {"DreamModel", "LLaDAModelLM"}, "expected one of " + list);
}

TEST(Config, WithoutArchitecturesIsOfTheFamilyThatItsTypeNames) {
  json config = dense("LlamaForCausalLM");
  config["model_type"] = "llama";
  for (const json& none : {json(nullptr), json::array()})
    EXPECT_EQ(read(with(config, "architectures", none)).architecture, "LlamaForCausalLM");
  config["model_type"] = "gpt2";
  expect_refused(config, "architectures", nullptr, "is []; expected one of ");
  // LLaDA and LLaDA-MoE have one type, and neither is a class of the library.
  expect_refused(with(llada(), "model_type", "llada"), "architectures", nullptr, "is []; expected one of ");
}

TEST(Config, OfThePublishedDiffusionGemmaHasItsNumbers) {
  const ModelConfig config = parse_random_spec("random:diffusion-gemma");
  // Published with one number a layer for both what is read and what is denoised; files hold it twice.
  EXPECT_EQ(count_parameters(config), 25'250'986'782 + 30);
  EXPECT_EQ(config.paradigm(), Paradigm::kCanvases);
  EXPECT_EQ(config.num_layers, 30);
  EXPECT_EQ(config.hidden_dim, 2816);
  EXPECT_EQ(config.ffn_dim, 2112);
  EXPECT_EQ(config.vocab_size, 262'144);
  EXPECT_EQ(config.max_positions, 262'144);
  EXPECT_EQ(config.num_heads, 16);
  EXPECT_EQ(config.num_kv_heads, 2);
  EXPECT_EQ(config.head_dim, 512);
  EXPECT_EQ(config.rope.theta, 1e6F);
  EXPECT_EQ(config.rope.num_rotated_pairs, 64);
  EXPECT_EQ(config.attn_scale, 1);
  EXPECT_FLOAT_EQ(config.embedding_scale, 53.06599F);
  EXPECT_TRUE(config.rounds_embedding_scale);
  EXPECT_EQ(config.logit_soft_cap, 30);
  EXPECT_EQ(config.norm_eps, 1e-6F);
  EXPECT_EQ(config.activation, Activation::kGeluTanh);
  EXPECT_TRUE(config.tied_embeddings && config.shares_keys && config.v_norm && config.qk_norm_per_head &&
              config.norms_outputs && config.layer_scalars);
  EXPECT_FALSE(config.causal || config.qkv_bias || config.norm_offset || config.qk_norm_full);
  EXPECT_THAT(config.end_ids, ElementsAre(1, 106));

  const SlidingAttention& sliding = config.sliding.value();
  EXPECT_EQ(sliding.window, 1024);
  EXPECT_EQ(sliding.num_kv_heads, 8);
  EXPECT_EQ(sliding.head_dim, 256);
  EXPECT_EQ(sliding.rope.theta, 1e4F);
  EXPECT_EQ(sliding.rope.num_rotated_pairs, 0);
  for (int64_t layer = 0; layer < 30; ++layer) {
    EXPECT_EQ(config.slides(layer), layer % 6 != 5) << layer;
    EXPECT_EQ(config.has_value_projection(layer), layer % 6 != 5) << layer;
    EXPECT_EQ(config.q_dim_of(layer), layer % 6 != 5 ? 4096 : 8192);
    EXPECT_EQ(config.kv_dim_of(layer), layer % 6 != 5 ? 2048 : 1024);
  }

  EXPECT_EQ(config.moe.num_experts, 128);
  EXPECT_EQ(config.moe.experts_per_token, 8);
  EXPECT_EQ(config.moe.expert_ffn_dim, 704);
  EXPECT_TRUE(config.moe.normalize_weights && config.moe.parallel_dense && config.moe.router_in_f32);
  EXPECT_FALSE(config.moe.sigmoid_scores || config.moe.selection_bias);

  const CanvasConfig& canvas = config.canvas.value();
  EXPECT_EQ(canvas.length, 256);
  EXPECT_EQ(canvas.conditioning_dim, 2112) << "that of the dense layers, as the file does not say";
  EXPECT_EQ(canvas.steps, 48);
  EXPECT_EQ(canvas.entropy_bound, 0.1F);
  EXPECT_EQ(canvas.first_temperature, 0.8F);
  EXPECT_EQ(canvas.last_temperature, 0.4F);
  EXPECT_EQ(canvas.stable_steps, 1);
  EXPECT_EQ(canvas.stop_entropy, 0.005F);
}

TEST(Config, OfADiffusionGemmaWithOtherLayersRepeatsTheirKinds) {
  const ModelConfig few = parse_random_spec("random:diffusion-gemma,layers=7");
  EXPECT_THAT(few.sliding->layers, ElementsAre(true, true, true, true, true, false, true));
  const ModelConfig many = parse_random_spec("random:diffusion-gemma,layers=33");
  EXPECT_EQ(many.sliding->layers.size(), 33U);
  EXPECT_FALSE(many.slides(29));
  EXPECT_TRUE(many.slides(30));
}

TEST(Config, ReadsDiffusionGemma) {
  const ModelConfig config = read(diffusion_gemma());
  EXPECT_EQ(config.family, "diffusion-gemma");
  EXPECT_EQ(config.num_layers, 3);
  EXPECT_EQ(config.hidden_dim, 64);
  EXPECT_EQ(config.num_kv_heads, 1);
  EXPECT_EQ(config.head_dim, 40);
  EXPECT_EQ(config.rope.num_rotated_pairs, 5);
  EXPECT_THAT(config.sliding->layers, ElementsAre(true, false, true));
  EXPECT_EQ(config.sliding->num_kv_heads, 2);
  EXPECT_EQ(config.sliding->head_dim, 24);
  EXPECT_EQ(config.sliding->window, 9);
  EXPECT_EQ(config.canvas->length, 32);
  EXPECT_EQ(config.canvas->conditioning_dim, 96);
  EXPECT_EQ(config.canvas->image_id, 98);
  EXPECT_EQ(config.eos_id, 1);
  EXPECT_THAT(config.end_ids, testing::UnorderedElementsAre(1, 6));
  EXPECT_EQ(read(with(diffusion_gemma(), "self_conditioning_size", 50)).canvas->conditioning_dim, 50);
}

TEST(Config, ReadsTheSamplerOfDiffusionGemmaFromItsGenerationConfig) {
  const json generation = {
      {"max_denoising_steps", 12},
      {"max_new_tokens", 40},
      {"t_min", 0.25},
      {"t_max", 1.5},
      {"stability_threshold", 2},
      {"confidence_threshold", 0.5},
      {"eos_token_id", {1, 6, 50}},
      {"sampler_config", {{"_cls_name", "EntropyBoundSamplerConfig"}, {"entropy_bound", 0.75}}}};
  const ModelConfig config = read(diffusion_gemma(), generation);
  EXPECT_EQ(config.canvas->steps, 12);
  EXPECT_EQ(config.canvas->first_temperature, 1.5F);
  EXPECT_EQ(config.canvas->last_temperature, 0.25F);
  EXPECT_EQ(config.canvas->stable_steps, 2);
  EXPECT_EQ(config.canvas->stop_entropy, 0.5F);
  EXPECT_EQ(config.canvas->entropy_bound, 0.75F);
  EXPECT_EQ(config.max_new_tokens, 40);
  EXPECT_THAT(config.end_ids, testing::UnorderedElementsAre(1, 6, 50));

  const auto refused = [&](const std::string& key, const json& value, const std::string& name) {
    EXPECT_THAT([&] { read(diffusion_gemma(), with(generation, key, value)); },
                ThrowsMessage<InputError>(AllOf(HasSubstr("generation_config.json"), HasSubstr(name))))
        << key << " = " << value;
  };
  refused("max_denoising_steps", 0, "\"max_denoising_steps\"");
  refused("t_min", 0, "\"t_min\"");
  refused("t_max", "hot", "\"t_max\"");
  refused("stability_threshold", -1, "\"stability_threshold\"");
  refused("confidence_threshold", -0.5, "\"confidence_threshold\"");
  refused("sampler_config", {{"_cls_name", "ConfidenceSamplerConfig"}}, "_cls_name\"");
  refused("sampler_config", {{"_cls_name", "EntropyBoundSamplerConfig"}, {"entropy_bound", -1}},
          "\"sampler_config.entropy_bound\"");
}

/// The file with a key of its language model changed.
json with_text(const std::string& key, const json& value) {
  json config = diffusion_gemma();
  config["text_config"][key] = value;
  return config;
}

json without_text(const std::string& key) {
  json config = diffusion_gemma();
  config["text_config"].erase(key);
  return config;
}

void expect_text_refused(const json& config, const std::string& key, const std::string& text) {
  EXPECT_THAT([&] { read(config); },
              ThrowsMessage<InputError>(
                  AllOf(HasSubstr("folder/config.json"), HasSubstr("\"text_config." + key), HasSubstr(text))))
      << key;
}

TEST(Config, LetsBookkeepingOfALanguageModelWithinAModelPass) {
  const ModelConfig plain = read(diffusion_gemma());
  for (const auto& [key, value] : {std::pair<const char*, json>{"attention_dropout", 0.1},
                                   {"initializer_range", 0.02},
                                   {"dtype", "bfloat16"},
                                   {"transformers_version", "5.2"},
                                   {"vocab_size_per_layer_input", 100},
                                   {"use_cache", true}}) {
    EXPECT_EQ(read(with_text(key, value)), plain) << key;
  }
  for (const auto& [key, value] : {std::pair<const char*, json>{"vision_config", {{"hidden_size", 16}}},
                                   {"boi_token_id", 3},
                                   {"eoi_token_id", 4},
                                   {"vision_soft_tokens_per_image", 280},
                                   {"dtype", "bfloat16"}}) {
    EXPECT_EQ(read(with(diffusion_gemma(), key, value)), plain) << key;
  }
}

TEST(Config, RefusesUnknownKeysOfALanguageModelWithinAModel) {
  for (const char* const key : {"foo", "attn_logit_softcapping", "query_pre_attn_scalar", "altup_num_inputs"})
    expect_text_refused(with_text(key, 3), std::string(key) + '"', "expected");
  json rope = diffusion_gemma();
  rope["text_config"]["rope_parameters"]["full_attention"]["foo"] = 3;
  expect_text_refused(rope, "rope_parameters.full_attention.foo\"", "not known");
  rope = diffusion_gemma();
  rope["text_config"]["rope_parameters"]["third_kind"] = {{"rope_theta", 3}};
  expect_text_refused(rope, "rope_parameters.third_kind", "not known");
  EXPECT_THAT([&] { read(with(diffusion_gemma(), "foo", 3)); },
              ThrowsMessage<InputError>(HasSubstr("\"foo\" is not known")));
}

TEST(Config, RefusesDiffusionGemmaVariantsThatItWouldComputeWrongly) {
  expect_text_refused(with_text("layer_types", {"sliding_attention", "full_attention"}), "layer_types\"",
                      "a list of 3");
  expect_text_refused(with_text("layer_types", {"sliding_attention", "full_attention", "chunked_attention"}),
                      "layer_types\"", "a list of sliding_attention and full_attention");
  expect_text_refused(without_text("layer_types"), "layer_types\"", "");
  expect_text_refused(without_text("global_head_dim"), "global_head_dim\"", "");
  expect_text_refused(without_text("sliding_window"), "sliding_window\"", "");
  expect_text_refused(without_text("rope_parameters"), "rope_parameters\"", "");
  expect_text_refused(with_text("use_bidirectional_attention", "all"), "use_bidirectional_attention\"",
                      "expected \"vision\"");
  expect_text_refused(with_text("attention_bias", true), "attention_bias\"", "false");
  expect_text_refused(with_text("attention_k_eq_v", false), "attention_k_eq_v\"", "true");
  expect_text_refused(with_text("num_kv_shared_layers", 2), "num_kv_shared_layers\"", "0");
  expect_text_refused(with_text("hidden_activation", "silu"), "hidden_activation\"", "gelu_pytorch_tanh");
  expect_text_refused(with_text("enable_moe_block", false), "enable_moe_block\"", "true");
  expect_text_refused(with_text("use_double_wide_mlp", true), "use_double_wide_mlp\"", "false");
  expect_text_refused(with_text("hidden_size_per_layer_input", 256), "hidden_size_per_layer_input\"", "0");
  expect_text_refused(with_text("top_k_experts", 9), "top_k_experts\"", "8");
  expect_text_refused(with_text("model_type", "gemma4_text"), "model_type\"", "diffusion_gemma_text");
  expect_text_refused(with_text("tie_word_embeddings", false), "tie_word_embeddings\"", "true");
  expect_refused(diffusion_gemma(), "tie_word_embeddings", false, "true");
  json untied = diffusion_gemma();
  untied.erase("tie_word_embeddings");
  EXPECT_THAT([&] { read(untied); }, ThrowsMessage<InputError>(HasSubstr("\"tie_word_embeddings\"")));
  expect_refused(diffusion_gemma(), "canvas_length", 1025, "1024");
  expect_refused(diffusion_gemma(), "image_token_id", 100, "99");
  EXPECT_THAT([&] { read(with_text("num_key_value_heads", 3)); },
              ThrowsMessage<InputError>(HasSubstr("\"num_key_value_heads\" is 3; expected a divisor")));
  EXPECT_THAT([&] { read(with_text("head_dim", 23)); }, ThrowsMessage<InputError>(HasSubstr("width 23")));
}

TEST(Config, RefusesRotationsOfDiffusionGemmaThatItDoesNotKnow) {
  const auto with_rope = [](const std::string& kind, const std::string& key, const json& value) {
    json config = diffusion_gemma();
    config["text_config"]["rope_parameters"][kind][key] = value;
    return config;
  };
  expect_text_refused(with_rope("full_attention", "rope_type", "yarn"),
                      "rope_parameters.full_attention.rope_type\"", "proportional");
  expect_text_refused(with_rope("sliding_attention", "rope_type", "linear"),
                      "rope_parameters.sliding_attention.rope_type\"", "default");
  EXPECT_EQ(read(with_rope("full_attention", "factor", 8)).rope.factor, 8);
  expect_text_refused(with_rope("full_attention", "factor", 0.5), "rope_parameters.full_attention.factor\"",
                      "1");
  expect_text_refused(with_rope("full_attention", "partial_rotary_factor", 0.01),
                      "rope_parameters.full_attention.partial_rotary_factor\"", "a pair");
  expect_text_refused(with_rope("full_attention", "partial_rotary_factor", 1.5),
                      "rope_parameters.full_attention.partial_rotary_factor\"", "1");
  json one_kind = diffusion_gemma();
  one_kind["text_config"]["rope_parameters"].erase("full_attention");
  expect_text_refused(one_kind, "rope_parameters.full_attention\"", "");
  json plain = with_rope("full_attention", "rope_type", "default");
  expect_text_refused(plain, "rope_parameters.full_attention.partial_rotary_factor\"", "expected 1");
  plain["text_config"]["rope_parameters"]["full_attention"].erase("partial_rotary_factor");
  EXPECT_EQ(read(plain).rope.num_rotated_pairs, 0);
  EXPECT_EQ(read(with_rope("full_attention", "partial_rotary_factor", 1.0)).rope.num_rotated_pairs, 20);
}

/// The heads of layers that see everything, as newer versions of transformers write them.
json by_layer(const json& layers) {
  json config = diffusion_gemma();
  config["text_config"].erase("num_global_key_value_heads");
  config["text_config"].erase("global_head_dim");
  config["text_config"]["per_layer_config"] = layers;
  return config;
}

TEST(Config, ReadsTheHeadsOfDiffusionGemmaByLayer) {
  const json own = {{"head_dim", 40}, {"num_key_value_heads", 1}};
  const ModelConfig plain = read(diffusion_gemma());
  EXPECT_EQ(read(by_layer({{"1", own}})), plain);
  EXPECT_EQ(read(by_layer({{"01", own}})), plain);
  EXPECT_EQ(read(by_layer({{"1", {{"head_dim", 40}}}})).num_kv_heads, 2) << "as in the other layers";
  const std::string wanted = "an object for each full_attention layer and no other";
  expect_text_refused(by_layer({{"0", own}, {"1", own}}), "per_layer_config", wanted);
  expect_text_refused(by_layer({{"1", own}, {"01", own}}), "per_layer_config", wanted);
  expect_text_refused(by_layer({{"3", own}}), "per_layer_config.3\"", wanted);
  expect_text_refused(by_layer({{"one", own}}), "per_layer_config.one\"", wanted);
  expect_text_refused(by_layer({{"1x", own}}), "per_layer_config.1x\"", wanted);
  expect_text_refused(by_layer(json::object()), "per_layer_config\"", wanted);
  expect_text_refused(by_layer({{"1", {{"head_dim", 40}, {"sliding_window", 5}}}}),
                      "per_layer_config.1.sliding_window\"", "not known");
  json both = by_layer({{"1", own}});
  both["text_config"]["global_head_dim"] = 40;
  expect_text_refused(both, "global_head_dim\"", "");
  json two_full = by_layer({{"1", own}, {"2", {{"head_dim", 48}, {"num_key_value_heads", 1}}}});
  two_full["text_config"]["layer_types"] = {"sliding_attention", "full_attention", "full_attention"};
  expect_text_refused(two_full, "per_layer_config.2\"", "the heads of the other full_attention layers");
  two_full["text_config"]["per_layer_config"]["2"] = own;
  EXPECT_EQ(read(two_full).head_dim, 40);
}

// Mechanisms of other families: none of them is computed here, and the weights alone would not tell.
TEST(Config, RefusesKeysThatMayChangeTheComputationAndAreNotKnown) {
  const std::vector<json> configs = {llada(), llada_moe(), dense("DreamModel"), dense("Qwen2ForCausalLM"),
                                     dense("Qwen3ForCausalLM")};
  for (const json& config : configs) {
    SCOPED_TRACE(config["architectures"].dump());
    for (const char* const key :
         {"attn_logit_softcapping", "final_logit_softcapping", "is_causal", "num_local_experts",
          "expert_capacity", "delete_token_id", "query_pre_attn_scalar", "layer_scalars",
          // Names that hold those of settings of training.
          "use_loss_free_routing", "moe_dropout_scale", "expert_loss_bias", "layer_initializer",
          "fuse_qkv_norm", "router_aux_coef_gate", "embd_pdrop_scale"}) {
      EXPECT_THAT([&] { read_config_texts({.config = with(config, key, 48).dump()}, "folder"); },
                  ThrowsMessage<InputError>(HasSubstr(fmt::format("\"{}\" ", key))))
          << key;
    }
  }
}

TEST(Config, TakesSettingsOfTrainingForHarmless) {
  const std::string plain = dense("Qwen3ForCausalLM").dump();
  for (const char* const key :
       {"attention_dropout", "embedding_dropout", "output_dropout", "residual_dropout", "resid_pdrop",
        "dropout", "router_aux_loss_coef", "router_z_loss_coef", "ar_loss_weight", "dlm_loss_weight",
        "init_std", "initializer_factor", "initializer_range", "fuse_cross_entropy"}) {
    const std::string text = with(dense("Qwen3ForCausalLM"), key, 0.5).dump();
    EXPECT_EQ(read_config_texts({.config = text}, "folder"), read_config_texts({.config = plain}, "folder"))
        << key;
  }
}

TEST(Config, SaysHowToRunAModelWhoseKeysAreNotKnown) {
  const json config = with(with(dense("Qwen3ForCausalLM"), "new_switch", true), "soft_cap", 30);
  const std::string text = config.dump();
  EXPECT_THAT([&] { read_config_texts({.config = text}, "folder"); },
              ThrowsMessage<InputError>("folder/config.json: \"new_switch\", \"soft_cap\" are not known for "
                                        "this architecture and may change "
                                        "what the model computes; expected keys that are known "
                                        "(--ignore-config-keys new_switch,soft_cap runs "
                                        "it nevertheless)"));
  const std::vector<std::string> one = {"soft_cap"};
  EXPECT_THAT([&] { read_config_texts({.config = text}, "folder", {.ignored_keys = one}); },
              ThrowsMessage<InputError>(HasSubstr("\"new_switch\" is not known")));
  const std::vector<std::string> both = {"soft_cap", "new_switch"};
  EXPECT_EQ(read_config_texts({.config = text}, "folder", {.ignored_keys = both}).num_layers, 2);
}

TEST(Config, RefusesUnknownKeysOfTheObjectsThatItReads) {
  const json scaling = {{"rope_type", "linear"}, {"factor", 2}, {"mrope_section", {16, 24, 24}}};
  EXPECT_THAT(
      [&] {
        read_config_texts({.config = with(dense("Qwen3ForCausalLM"), "rope_scaling", scaling).dump()}, "f");
      },
      ThrowsMessage<InputError>(HasSubstr("\"rope_scaling.mrope_section\" is not known")));
}

TEST(Config, TakesNullForAnAbsentKeyAndLetsBookkeepingPass) {
  json config = with(dense("Qwen3ForCausalLM"), "attn_logit_softcapping", nullptr);
  config.update({{"transformers_version", "5.2"},
                 {"id2label", {{"0", "A"}}},
                 {"router_aux_loss_coef", 0.001},
                 {"attention_dropout", 0.1},
                 {"sliding_window", 4096},
                 {"max_window_layers", 28}});
  EXPECT_EQ(read_config_texts({.config = config.dump()}, "folder").num_layers, 2);
}

TEST(Config, RefusesAModelTypeThatContradictsTheArchitecture) {
  expect_refused(dense("Qwen3ForCausalLM"), "model_type", "gemma3", "is \"gemma3\"; expected \"qwen3\"");
  expect_refused(llada(), "model_type", "dream",
                 "is \"dream\"; expected \"llada\", as \"architectures\" says");
  EXPECT_EQ(
      read_config_texts({.config = with(dense("DreamModel"), "model_type", "Dream").dump()}, "f").family,
      "dream");
}

TEST(Config, RefusesTextThatIsNotAJsonObject) {
  EXPECT_THAT([] { read_config_texts({.config = "{\n  \"d_model\": 1,\n  oops}"}, "folder"); },
              ThrowsMessage<InputError>("folder/config.json: not valid JSON at line 3, column 3"));
  EXPECT_THAT([] { read_config_texts({.config = "[]"}, "folder"); },
              ThrowsMessage<InputError>("folder/config.json: is a list of 0; expected a JSON object"));
  EXPECT_THAT([] { read_config_texts({.config = R"({"rope": true, "rope": false})"}, "folder"); },
              ThrowsMessage<InputError>(HasSubstr("key \"rope\" appears twice")));
}

TEST(Config, NamesTheFileThatAFolderLacks) {
  EXPECT_THAT([] { read_config("/nonexistent/model"); },
              ThrowsMessage<InputError>(HasSubstr("/nonexistent/model/config.json: cannot be read")));
}

TEST(Config, ReadsThePublishedFilesAsTheyAre) {
  const fs::path hub = fs::path(LACUNA_SHARED_DIR) / "hub";
  if (!fs::exists(hub)) GTEST_SKIP() << "no published files in " << hub;
  const ModelConfig llada = read_config(hub / "LLaDA-8B-Instruct");
  EXPECT_EQ(llada.family, "llada");
  EXPECT_EQ(llada.num_layers, 32);
  EXPECT_EQ(llada.hidden_dim, 4096);
  EXPECT_EQ(llada.ffn_dim, 12288);
  EXPECT_EQ(llada.head_dim, 128);
  EXPECT_EQ(llada.vocab_size, 126464);
  EXPECT_EQ(llada.mask_id, 126336);
  EXPECT_THAT(llada.end_ids, ElementsAre(126081, 126348));

  const ModelConfig dream = read_config(hub / "Dream-v0-Instruct-7B");
  EXPECT_EQ(dream.family, "dream");
  EXPECT_EQ(dream.num_kv_heads, 4);
  EXPECT_EQ(dream.ffn_dim, 18944);
  EXPECT_EQ(dream.vocab_size, 152064);
  EXPECT_EQ(dream.mask_id, 151666);
  EXPECT_THAT(dream.end_ids, ElementsAre(151643, 151645));
}

}  // namespace
}  // namespace lacuna::config_test
