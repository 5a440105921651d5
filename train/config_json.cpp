// config.json of the families, with the keys of their published checkpoints.
#include <cmath>
#include <nlohmann/json.hpp>

#include "train/canvas_config.h"
#include "train/export.h"
#include "train/objective.h"

namespace lacuna::train {
namespace {

nlohmann::ordered_json llada_config(const ModelShape& shape, const SpecialIds& ids) {
  return {{"activation_type", "silu"},
          {"alibi", false},
          {"alibi_bias_max", 8.0},
          {"architectures", {"LLaDAModelLM"}},
          {"attention_dropout", 0.0},
          {"attention_layer_norm", false},
          {"attention_layer_norm_with_affine", true},
          {"auto_map",
           {{"AutoConfig", "configuration_llada.LLaDAConfig"},
            {"AutoModelForCausalLM", "modeling_llada.LLaDAModelLM"},
            {"AutoModel", "modeling_llada.LLaDAModelLM"}}},
          {"bias_for_layer_norm", false},
          {"block_group_size", 1},
          {"block_type", "llama"},
          {"d_model", shape.width},
          {"embedding_dropout", 0.0},
          {"embedding_size", shape.vocabulary},
          {"eos_token_id", ids.end},
          {"flash_attention", false},
          {"include_bias", false},
          {"include_qkv_bias", false},
          {"init_cutoff_factor", nullptr},
          {"init_device", "cpu"},
          {"init_fn", "mitchell"},
          {"init_std", 0.02},
          {"input_emb_norm", false},
          {"layer_norm_type", "rms"},
          {"layer_norm_with_affine", true},
          {"mask_token_id", ids.mask},
          {"max_sequence_length", shape.context},
          {"mlp_hidden_size", shape.ffn_width},
          {"mlp_ratio", 4},
          {"model_type", "llada"},
          {"multi_query_attention", nullptr},
          {"n_heads", shape.heads},
          {"n_kv_heads", shape.num_kv_heads()},
          {"n_layers", shape.layers},
          {"pad_token_id", ids.end},
          {"precision", "amp_bf16"},
          {"residual_dropout", 0.0},
          {"rms_norm_eps", shape.epsilon()},
          {"rope", true},
          {"rope_full_precision", true},
          {"rope_theta", shape.rope_theta},
          {"scale_logits", false},
          {"transformers_version", "4.46.3"},
          {"use_cache", false},
          {"vocab_size", shape.vocabulary},
          {"weight_tying", shape.tied_head}};
}

/// The keys of LLaDA2 beyond those of transformers_config().
nlohmann::ordered_json llada2_keys(const ModelShape& shape, const SpecialIds& ids) {
  return {{"architectures", {"LLaDA2MoeModelLM"}},
          {"auto_map",
           {{"AutoConfig", "configuration_llada2_moe.LLaDA2MoeConfig"},
            {"AutoModel", "modeling_llada2_moe.LLaDA2MoeModel"},
            {"AutoModelForCausalLM", "modeling_llada2_moe.LLaDA2MoeModelLM"}}},
          {"block_length", shape.block_length},  // absent from the published files, like the mask's id
          {"embedding_dropout", 0.0},
          {"first_k_dense_replace", 1},
          {"head_dim", shape.head_width()},
          {"mask_token_id", ids.mask},
          {"model_type", "llada2_moe"},
          {"moe_intermediate_size", shape.experts.ffn_width},
          {"moe_router_enable_expert_bias", true},
          {"n_group", kExpertGroups},
          {"norm_head", false},
          {"norm_softmax", false},
          {"norm_topk_prob", true},
          {"num_experts", shape.experts.count},
          {"num_experts_per_tok", shape.experts.per_token},
          {"num_shared_experts", 1},
          {"output_dropout", 0.0},
          {"output_router_logits", false},
          {"pad_token_id", ids.end},
          {"partial_rotary_factor", shape.traits().rotary_share},
          {"rotary_dim", shape.rotary_width()},
          {"routed_scaling_factor", kRoutedScale},
          {"router_dtype", "fp32"},
          {"score_function", "sigmoid"},
          {"topk_group", kGroupsPerToken},
          {"use_bias", false},
          {"use_qkv_bias", false},
          {"use_rmsnorm", true},
          {"using_split_qkv_in_self_attention", false}};
}

/// Keys of families with the transformers library's layout: the common ones, then each family's own.
nlohmann::ordered_json transformers_config(const ModelShape& shape, const SpecialIds& ids) {
  nlohmann::ordered_json config = {{"attention_dropout", 0.0},
                                   {"bos_token_id", ids.start},
                                   {"eos_token_id", ids.end},
                                   {"hidden_act", "silu"},
                                   {"hidden_size", shape.width},
                                   {"initializer_range", 0.02},
                                   {"intermediate_size", shape.ffn_width},
                                   {"max_position_embeddings", shape.context},
                                   {"max_window_layers", shape.layers},
                                   {"num_attention_heads", shape.heads},
                                   {"num_hidden_layers", shape.layers},
                                   {"num_key_value_heads", shape.num_kv_heads()},
                                   {"rms_norm_eps", shape.epsilon()},
                                   {"rope_scaling", nullptr},
                                   {"rope_theta", shape.rope_theta},
                                   {"sliding_window", nullptr},
                                   {"tie_word_embeddings", shape.tied_head},
                                   {"torch_dtype", "bfloat16"},
                                   {"use_cache", true},
                                   {"use_sliding_window", false},
                                   {"vocab_size", shape.vocabulary}};
  switch (shape.family) {
    case Family::kDream:
      config.update(
          {{"architectures", {"DreamModel"}},
           {"auto_map",
            {{"AutoConfig", "configuration_dream.DreamConfig"}, {"AutoModel", "modeling_dream.DreamModel"}}},
           {"mask_token_id", ids.mask},
           {"model_type", "Dream"},
           {"pad_token_id", ids.end},
           {"transformers_version", "4.46.2"},
           {"use_mrope", false}});
      break;
    case Family::kQwen2:
      config.update({{"architectures", {"Qwen2ForCausalLM"}},
                     {"model_type", "qwen2"},
                     {"transformers_version", "4.43.1"},
                     {"use_mrope", false}});
      break;
    case Family::kRefusion:  // a Qwen3 model that knows a mask token
      config["mask_token_id"] = ids.mask;
      config["lacuna"] = {{"paradigm", "slots"}};
      [[fallthrough]];
    case Family::kQwen3:
      config.update({{"architectures", {"Qwen3ForCausalLM"}},
                     {"attention_bias", false},
                     {"head_dim", shape.head_width()},
                     {"model_type", "qwen3"},
                     {"transformers_version", "4.51.0"}});
      break;
    case Family::kIdlm:  // SDAR's class; its masks are read from left to right
      config["lacuna"] = {{"paradigm", "causal"}};
      [[fallthrough]];
    case Family::kSdar:
      config.update({{"architectures", {"SDARForCausalLM"}},
                     {"attention_bias", false},
                     {"block_size", shape.block_length},
                     {"head_dim", shape.head_width()},
                     {"mask_token_id", ids.mask},
                     {"model_type", "sdar"},
                     {"transformers_version", "4.52.4"}});
      break;
    case Family::kFastDllm:
      config.update({{"architectures", {"Fast_dLLM_QwenForCausalLM"}},
                     {"bd_size", shape.block_length},
                     {"conplemenrary_mask", true},  // spelling of the published file
                     {"mask_token_id", ids.mask},
                     {"model_type", "Fast_dLLM_Qwen"},
                     {"transformers_version", "4.53.1"}});
      break;
    case Family::kLlada2:
      config.update(llada2_keys(shape, ids));
      break;
    case Family::kLlada:
    case Family::kGidd:
    case Family::kGiddMask:
    case Family::kDiffusionGemma:
      break;
  }
  return config;
}

/// The published configs omit the ids of mask and padding, which are arguments of their generate() (3 and 2).
/// Our tokenizer has other ids, so the config names them.
nlohmann::ordered_json gidd_config(const ModelShape& shape, const SpecialIds& ids) {
  const FamilyTraits& traits = shape.traits();
  return {
      {"architectures", {"GiddForDiffusionLM"}},
      {"attention_bias", traits.kv_sink},
      {"attn_performer", "eager"},
      {"attn_soft_cap", traits.attn_soft_cap},
      {"auto_map",
       {{"AutoConfig", "configuration_gidd.GiddConfig"},
        {"AutoModel", "modeling_gidd.GiddForDiffusionLM"},
        {"AutoModelForCausalLM", "modeling_gidd.GiddForDiffusionLM"}}},
      {"bos_token_id", -1},  // published prompts begin with this token, ours directly with their first word
      {"emb_init_scale", kGiddEmbeddings},
      {"eos_token_id", ids.end},
      {"head_dim", shape.head_width()},
      {"head_init_scale", 0.0},
      {"head_scaling", traits.head_scale_width / static_cast<double>(shape.width)},
      {"hidden_size", shape.width},
      {"init_scale", kGiddMatrices / std::sqrt(static_cast<double>(shape.width))},
      {"intermediate_size", shape.ffn_width},
      {"is_causal", shape.causal()},
      {"mask_token_id", ids.mask},
      {"max_log_snr", kMaxLogSnr},
      {"max_position_embeddings", shape.context},
      {"min_log_snr", -kMaxLogSnr},
      {"mlp_bias", traits.squared_relu},
      {"model_type", "gidd"},
      {"noise_type", shape.noise_shift()},
      {"num_attention_heads", shape.heads},
      {"num_hidden_layers", shape.layers},
      {"pad_token_id", ids.end},
      {"resid_scale", traits.residual_scale},
      {"rms_norm_eps", traits.norm_epsilon},
      {"rope_scaling", nullptr},
      {"rope_theta", shape.rope_theta},
      {"tie_word_embeddings", false},
      {"torch_dtype", "bfloat16"},
      {"use_qk_norm", traits.qk_norm == QkNorm::kWidth},
      {"vocab_size", shape.vocabulary},
      {"weight_scaling", 1.0}};
}

}  // namespace

nlohmann::ordered_json config_json(const ModelShape& shape, const SpecialIds& ids) {
  if (shape.family == Family::kLlada) return llada_config(shape, ids);
  if (shape.traits().has_canvases()) return canvas_config(shape, ids);
  return shape.traits().interpolates() ? gidd_config(shape, ids) : transformers_config(shape, ids);
}

}  // namespace lacuna::train
