#include "model/config_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/error.h"
#include "model/config.h"

namespace lacuna {
namespace {

using Json = nlohmann::json;

// Keys for the transformers library and other programs, and settings of training, generate() and outputs.
constexpr std::array kBookkeeping = std::to_array<std::string_view>(
    {// Origin of the file, and the classes that read it.
     "_class_name", "_commit_hash", "_diffusers_version", "_from_model_config", "_name_or_path",
     "generation_config", "architectures", "author", "auto_map", "base_model", "base_model_name",
     "base_model_name_or_path", "custom_pipelines", "description", "export_model_type", "is_llama_config",
     "language", "library_name", "license", "model_file", "model_id", "model_name", "model_name_or_path",
     "model_type", "name", "name_or_path", "pipeline_tag", "tags", "task", "tokenizer_class",
     "tokenizer_name", "tokenizer_name_or_path", "trained_by", "version",
     // Storage of weights, and choice of equivalent implementations.
     "attention_kernel", "attn_kernel", "bf16", "cache_implementation", "chunk_size_feed_forward", "debug",
     "deterministic", "device_map", "dtype", "enable_deepep", "ep_size", "flash_attention", "fp16",
     "fuse_linear_cross_entropy", "fused_cross_entropy", "init_device", "kv_cache_dtype", "low_cpu_mem_usage",
     "micro_forward", "model_dtype", "moe_grouped_gemm", "params_dtype", "precision", "pretraining_tp",
     "reorder_and_upcast_attn", "residual_in_fp32", "rope_full_precision", "skip_checkpoint",
     "softmax_in_fp32", "attention_softmax_in_fp32", "tensor_parallel", "tf_legacy_loss", "torch_compile",
     "torch_dtype", "torchscript", "tp_size", "ulysses_size", "use_bfloat16", "use_deepep", "use_flash_attn",
     "use_flash_attn_2", "use_flash_attention", "use_flash_attention_2", "use_flash_attention_3", "use_flash",
     "use_flex_attention", "use_fused_cross_entropy", "use_grouped_gemm", "use_kernels", "use_liger",
     "use_liger_kernel", "use_memory_efficient_attention", "use_sdpa", "use_sdp_attention", "use_triton",
     "use_unpad", "use_xformers", "weights_format",
     // Outputs of a call.
     "output_attentions", "output_hidden_states", "output_past", "output_router_logits", "output_scores",
     "return_dict", "return_dict_in_generate", "use_cache", "use_return_dict", "keys_to_ignore_at_inference",
     // Heads for other tasks.
     "classifier_dropout", "finetuning_task", "id2label", "label2id", "num_labels", "problem_type",
     "pruned_heads", "task_specific_params",
     // Autoregressive generation, which flags set here, and encoder-decoder models.
     "bad_words_ids", "begin_suppress_tokens", "decoder_start_token_id", "diversity_penalty", "do_sample",
     "early_stopping", "encoder_no_repeat_ngram_size", "exponential_decay_length_penalty",
     "forced_bos_token_id", "forced_eos_token_id", "is_decoder", "length_penalty", "max_length",
     "max_new_tokens", "min_length", "min_new_tokens", "no_repeat_ngram_size", "num_beam_groups", "num_beams",
     "num_return_sequences", "prefix", "remove_invalid_values", "repetition_penalty", "sep_token_id",
     "cls_token_id", "unk_token_id", "suppress_tokens", "temperature", "top_k", "top_p", "min_p", "typical_p",
     // Tokenizer settings, which the tokenizer's files decide.
     "add_bos_token", "add_eos_token", "chat_template", "model_max_length", "padding_side",
     "tokenizer_model_max_length", "tokenizer_padding_side", "truncation_side",
     // Training: initialization, lengths, losses, optimizers, and a fused kernel of the same loss (SDAR's).
     "adam_beta1", "adam_beta2", "adam_epsilon", "answer_only_loss", "data_seed", "dropout", "ema_decay",
     "eval_steps", "freeze_embeddings", "fuse_cross_entropy", "gradient_accumulation_steps",
     "gradient_clipping", "ignore_index", "init_method", "init_std", "initializer_factor",
     "initializer_range", "initializer_std", "label_smoothing", "learning_rate", "logging_steps", "loss_type",
     "max_grad_norm", "max_seq_len", "max_seq_length", "max_steps", "model_parallel", "num_epochs",
     "num_train_epochs", "optimizer", "pack_sequences", "sample_packing", "save_steps", "scheduler", "seed",
     "seq_length", "seq_len", "sequence_len", "train_batch_size", "train_mode", "training_args",
     "training_config", "training_stage", "training_steps", "use_gradient_checkpointing", "warmup_ratio",
     "warmup_steps", "weight_decay", "z_loss",
     // Has no effect because "use_sliding_window" must be false.
     "max_window_layers"});

// Prefixes of keys that programs write for themselves.
constexpr std::array kToolPrefixes = std::to_array<std::string_view>(
    {"auto_map.", "axolotl_", "base_model_tp_plan", "base_model_pp_plan", "base_model_ep_plan", "deepspeed_",
     "fsdp_", "llamafactory_", "mlflow_", "peft_", "transformers.", "transformers_", "trl_", "unsloth",
     "_unsloth", "veomni_", "wandb_"});

// Training (dropout rates, loss weights, gradient checkpointing) and choice of kernels.
constexpr std::array kHarmlessEnds = std::to_array<std::string_view>(
    {"_dropout", "_pdrop", "_loss_coef", "_loss_coefficient", "_loss_weight", "_checkpointing",
     "_checkpointing_kwargs", "_implementation", "_implementation_autoset", "_implementation_internal",
     "attention_backend", "attn_backend", "moe_backend", "_parallel_size", "_learning_rate", "_batch_size",
     "_init_std", "name_or_path"});

constexpr std::array kFlashPrefixes =
    std::to_array<std::string_view>({"flash_attn", "_flash_attn", "deepep_", "gradient_checkpointing"});

/// Vision-language models keep the language model's keys in the object "text_config".
std::string_view without_text_config(std::string_view key) {
  constexpr std::string_view kPrefix = "text_config.";
  return key.starts_with(kPrefix) ? key.substr(kPrefix.size()) : key;
}

/// Name of an activation in files; "silu" has synonyms.
std::string_view name_of(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return "silu";
    case Activation::kGeluTanh:
      return "gelu_pytorch_tanh";
    case Activation::kSquaredRelu:
      return "relu2";
  }
  return "";
}

float score_scale(const ModelConfig& config) {
  return config.attn_scale > 0 ? config.attn_scale : 1 / std::sqrt(static_cast<float>(config.head_dim));
}

Json null_or(bool is_known, const Json& value) {
  return is_known ? value : Json();
}

/// Keys of one property in the files of many families, and its computed value; null: no value is accepted.
struct Property {
  std::vector<std::string_view> keys;
  Json (*computed)(const ModelConfig& config);
};

const std::vector<Property>& properties() {
  static const std::vector<Property> kProperties = {
      {{"attention_bias", "qkv_bias", "use_qkv_bias", "add_qkv_bias", "include_qkv_bias", "attn_bias"},
       [](const ModelConfig& c) -> Json { return c.qkv_bias; }},
      {{"attention_out_bias", "attention_output_bias", "attn_out_bias", "o_proj_bias", "out_proj_bias"},
       [](const ModelConfig& c) -> Json { return c.attn_output_bias; }},
      {{"mlp_bias", "use_mlp_bias", "ffn_bias", "feed_forward_bias", "add_mlp_bias"},
       [](const ModelConfig& c) -> Json { return c.ffn_bias; }},
      {{"use_bias", "bias", "include_bias", "add_bias_linear"},
       [](const ModelConfig& c) {
         return null_or(!c.qkv_bias && !c.attn_output_bias && !c.ffn_bias, false);
       }},
      {{"no_bias"},
       [](const ModelConfig& c) { return null_or(!c.qkv_bias && !c.attn_output_bias && !c.ffn_bias, true); }},
      {{"use_qk_norm", "qk_norm", "qk_layernorm", "use_qk_layernorm", "qk_layer_norm",
        "attention_layer_norm"},
       [](const ModelConfig& c) -> Json { return c.qk_norm_per_head || c.qk_norm_full; }},
      {{"hidden_act", "hidden_activation", "activation_function", "activation_type", "mlp_activation",
        "mlp_hidden_act", "act_fn", "activation"},
       [](const ModelConfig& c) -> Json { return name_of(c.activation); }},
      {{"use_swiglu", "swiglu", "gated_mlp", "use_gated_mlp", "use_glu", "gated_linear_unit"},
       [](const ModelConfig& c) -> Json { return c.activation != Activation::kSquaredRelu; }},
      {{"is_causal", "causal", "use_causal_mask", "causal_attention"},
       [](const ModelConfig& c) -> Json { return c.causal; }},
      {{"use_bidirectional_attention", "bidirectional", "bidirectional_attention"},
       [](const ModelConfig& c) { return null_or(!c.block_causal, !c.causal); }},
      {{"block_causal_prompt"}, [](const ModelConfig& c) { return null_or(c.block_causal, true); }},
      {{"is_encoder_decoder",
        "add_cross_attention",
        "tie_encoder_decoder",
        "alibi",
        "use_alibi",
        "use_mrope",
        "use_sliding_window",
        "parallel_attn",
        "parallel_residual",
        "use_parallel_residual",
        "use_parallel_attention",
        "scale_attn_by_inverse_layer_idx",
        "rope_interleaved",
        "rope_interleave",
        "interleaved_rope",
        "rotary_emb_interleaved",
        "lm_head_bias",
        "head_bias",
        "embedding_bias",
        "multi_query",
        "multi_query_attention"},
       [](const ModelConfig&) -> Json { return false; }},
      {{"attention_sink", "attention_sinks", "use_attention_sinks", "use_sinks"},
       [](const ModelConfig& c) { return null_or(!c.kv_sink && !c.zero_sink, false); }},
      {{"tie_word_embeddings", "weight_tying", "tie_embeddings", "tied_embeddings", "share_embeddings"},
       [](const ModelConfig& c) -> Json { return c.tied_embeddings; }},
      {{"rope", "use_rope", "use_rotary", "use_rotary_embeddings", "use_rotary_embedding", "rotary",
        "is_neox_style", "layer_norm_with_affine", "elementwise_affine", "norm_affine",
        "do_layer_norm_before", "pre_norm", "scale_attn_weights"},
       [](const ModelConfig&) -> Json { return true; }},
      {{"rms_norm", "use_rmsnorm", "use_rms_norm"},
       [](const ModelConfig& c) -> Json { return !c.layer_norm; }},
      {{"norm_type", "normalization_type", "layer_norm_type", "normalization"},
       [](const ModelConfig& c) -> Json { return c.layer_norm ? "layernorm" : "rms"; }},
      {{"layer_norm_eps", "layer_norm_epsilon", "norm_eps", "norm_epsilon", "layernorm_epsilon",
        "rms_norm_epsilon", "rms_norm_eps"},
       [](const ModelConfig& c) -> Json { return c.norm_eps; }},
      {{"position_embedding_type", "positional_embedding_type", "pos_embedding_type", "positional_encoding"},
       [](const ModelConfig&) -> Json { return "rope"; }},
      {{"rotary_pct", "rope_pct", "rotary_percentage", "rope_percentage", "rotary_emb_fraction",
        "rotary_fraction", "rope_fraction", "rope_percent"},
       [](const ModelConfig& c) -> Json {
         return static_cast<double>(c.rotary_dim) / static_cast<double>(c.head_dim);
       }},
      {{"rotary_dim", "rope_dim", "rotary_emb_dim", "rotary_ndims"},
       [](const ModelConfig& c) -> Json { return c.rotary_dim; }},
      {{"rotary_base", "rope_base", "rotary_emb_base"},
       [](const ModelConfig& c) -> Json { return c.rope.theta; }},
      {{"attention_multiplier", "attn_scale", "attention_scale", "softmax_scale", "qk_scale", "query_scale"},
       [](const ModelConfig& c) -> Json { return score_scale(c); }},
      {{"query_pre_attn_scalar"},
       [](const ModelConfig& c) -> Json { return 1 / (score_scale(c) * score_scale(c)); }},
      {{"embedding_multiplier", "embedding_scale", "scale_emb", "emb_scale", "embed_scale", "input_scale"},
       [](const ModelConfig& c) -> Json { return c.embedding_scale; }},
      {{"residual_multiplier", "residual_scale"},
       [](const ModelConfig& c) -> Json { return c.residual_scale; }},
      {{"scale_depth"},
       [](const ModelConfig& c) -> Json {
         return c.residual_scale * std::sqrt(static_cast<float>(c.num_layers));
       }},
      {{"logit_scale", "logits_scale", "logit_multiplier", "lm_head_multiplier", "output_multiplier"},
       [](const ModelConfig& c) -> Json { return c.logit_scale; }},
      {{"logits_scaling", "logit_scaling"}, [](const ModelConfig& c) -> Json { return 1 / c.logit_scale; }},
      {{"dim_model_base"},
       [](const ModelConfig& c) -> Json { return static_cast<float>(c.hidden_dim) * c.logit_scale; }},
      {{"final_logit_softcapping", "final_logit_softcap", "logit_soft_cap", "logits_soft_cap",
        "output_logit_soft_cap"},
       [](const ModelConfig& c) -> Json { return c.logit_soft_cap; }},
      {{"attn_logit_softcapping", "attn_logit_softcap", "attention_softcap", "attn_soft_cap"},
       [](const ModelConfig& c) -> Json { return c.attn_soft_cap; }},
      {{"clip_qkv", "qkv_clip"},
       [](const ModelConfig& c) { return c.qkv_clip ? Json(*c.qkv_clip) : Json(); }},
      {{"layer_types"},
       [](const ModelConfig& c) { return null_or(!c.sliding && !c.convolution, "full_attention"); }}};
  return kProperties;
}

/// Names of sizes in various classes.
const std::vector<Property>& sizes() {
  static const std::vector<Property> kSizes = {
      {{"hidden_size", "d_model", "n_embd", "model_dim"},
       [](const ModelConfig& c) -> Json { return c.hidden_dim; }},
      {{"num_hidden_layers", "n_layers", "n_layer", "num_layers"},
       [](const ModelConfig& c) -> Json { return c.num_layers; }},
      {{"num_attention_heads", "n_heads", "n_head", "num_heads"},
       [](const ModelConfig& c) -> Json { return c.num_heads; }},
      {{"num_key_value_heads", "n_kv_heads", "num_kv_heads", "num_query_groups"},
       [](const ModelConfig& c) -> Json { return c.num_kv_heads; }},
      {{"head_dim", "head_size", "kv_channels", "attention_head_dim", "v_head_dim", "qk_head_dim"},
       [](const ModelConfig& c) -> Json { return c.head_dim; }},
      {{"intermediate_size", "mlp_hidden_size", "ffn_hidden_size", "ffn_dim", "n_inner"},
       [](const ModelConfig& c) -> Json { return c.ffn_dim; }},
      {{"vocab_size", "embedding_size", "padded_vocab_size", "n_vocab"},
       [](const ModelConfig& c) -> Json { return c.vocab_size; }},
      {{"max_position_embeddings", "max_sequence_length", "n_positions", "n_ctx"},
       [](const ModelConfig& c) -> Json { return c.max_positions; }}};
  return kSizes;
}

const Property* property_of(std::string_view key) {
  for (const std::vector<Property>* const known : {&properties(), &sizes()}) {
    for (const Property& property : *known) {
      if (std::ranges::find(property.keys, key) != property.keys.end()) return &property;
    }
  }
  return nullptr;
}

/// Whether two values have the same meaning.
bool is_same(const Json& value, const Json& computed) {
  if (value.is_number() && computed.is_number()) {
    const auto wanted = computed.get<double>();
    return std::abs(value.get<double>() - wanted) <= 1e-6 * std::abs(wanted);
  }
  // A missing cap is 0 here, and false in files.
  if (computed.is_number() && computed.get<double>() == 0 && value == false) return true;
  if (!value.is_string() || !computed.is_string()) return value == computed;
  const auto text = value.get<std::string>();
  // "swiglu" is gated SiLU, as is every "silu" computed here.
  if (computed == "silu") return text == "silu" || text == "swish" || text == "swiglu";
  if (computed == "rms") return text == "rms" || text == "rmsnorm" || text == "rms_norm" || text == "RMSNorm";
  if (computed == "layernorm") return text == "layernorm" || text == "layer_norm" || text == "layernorm1p";
  if (computed == "rope") return text == "rope" || text == "rotary";
  return value == computed;
}

bool fits(const Json& value, const Json& computed) {
  if (computed.is_null()) return false;
  if (!value.is_array()) return is_same(value, computed);
  return std::ranges::all_of(value, [&](const Json& each) { return is_same(each, computed); });
}

[[noreturn]] void refuse_unknown(const JsonObject& object, std::span<const std::string> unknown) {
  constexpr size_t kMaxNamed = 8;
  const size_t num_left_out = unknown.size() - std::min(unknown.size(), kMaxNamed);
  const std::span<const std::string> shown = unknown.first(unknown.size() - num_left_out);
  std::vector<std::string> named;
  for (const std::string& key : shown) named.push_back(in_quotes(key));
  const std::string more = num_left_out > 0 ? fmt::format(" and {} more", num_left_out) : "";
  throw InputError(
      "{}: {}{} {} not known for this architecture and may change what the model computes; expected keys "
      "that are known (--ignore-config-keys {} runs it nevertheless)",
      object.file(), fmt::join(named, ", "), more, unknown.size() == 1 ? "is" : "are", fmt::join(shown, ","));
}

}  // namespace

bool is_bookkeeping_key(std::string_view key) {
  key = without_text_config(key);
  const auto starts = [&](std::string_view begin) { return key.starts_with(begin); };
  const auto ends = [&](std::string_view end) { return key.ends_with(end); };
  return std::ranges::find(kBookkeeping, key) != kBookkeeping.end() ||
         std::ranges::any_of(kToolPrefixes, starts) || std::ranges::any_of(kFlashPrefixes, starts) ||
         std::ranges::any_of(kHarmlessEnds, ends);
}

bool switches_nothing_on(std::string_view key, const Json& value) {
  if (value.is_null() || value == false || value == "") return true;
  if (value.is_array() || value.is_object()) return value.empty();
  if (!value.is_number()) return false;
  constexpr std::array kScaleWords =
      std::to_array<std::string_view>({"scale", "scaling", "multiplier", "factor"});
  const bool is_scale = std::ranges::any_of(
      kScaleWords, [&](std::string_view word) { return key.find(word) != std::string_view::npos; });
  return value.get<double>() == (is_scale ? 1 : 0);
}

std::vector<std::string> check_unread_keys(const JsonObject& object, const ModelConfig& config,
                                           std::span<const std::string_view> harmless,
                                           std::span<const std::string> ignored) {
  std::vector<std::string> unknown, passed;
  for (const JsonObject::Unread& unread : object.unread()) {
    const std::string_view key = without_text_config(unread.path);
    if (is_bookkeeping_key(key) || std::ranges::find(harmless, key) != harmless.end() ||
        std::ranges::find(ignored, unread.path) != ignored.end())
      continue;
    if (const Property* const property = property_of(key)) {
      const Json computed = property->computed(config);
      if (fits(*unread.value, computed)) continue;
      throw InputError(
          "{}: {} is {}, which {} is not computed with; expected {} (--ignore-config-keys {} runs it "
          "nevertheless)",
          object.file(), in_quotes(unread.path), shown_json(*unread.value), config.architecture,
          computed.is_null() ? "no such key" : computed.dump(), unread.path);
    } else if (switches_nothing_on(key, *unread.value)) {
      passed.push_back(unread.path);
    } else {
      unknown.push_back(unread.path);
    }
  }
  if (!unknown.empty()) refuse_unknown(object, unknown);
  return passed;
}

}  // namespace lacuna
