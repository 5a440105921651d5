// Hints: fields of all APIs that never change an answer here.
#include "server/dialect.h"

namespace lacuna {
namespace {

// Names separated by spaces, and their help.
constexpr HintNames kHints[] = {
    // OpenAI's and Anthropic's services
    {"user metadata service_tier safety_identifier prompt_cache_key prompt_cache_retention "
     "prompt_cache_options prediction verbosity reasoning_effort reasoning thinking moderation",
     "left out"},
    {"store", "left out: nothing is stored"},
    {"modalities", "left out: answers are text"},
    {"web_search_options", "left out: the server searches nothing"},
    // Ollama, LM Studio
    {"keep_alive ttl", "left out; --unload-after says it"},
    {"draft_model", "left out"},
    // llama.cpp
    {"cache_prompt", "left out: prompts are always kept"},
    {"t_max_predict_ms t_max_prompt_ms", "left out; --request-timeout says it"},
    {"repeat_last_n", "left out: repeat_penalty is of the whole text"},
    {"mirostat_tau mirostat_eta", "left out: there is no mirostat"},
    {"xtc_threshold", "left out: without xtc_probability it says nothing"},
    {"add_special_tokens", "left out: prompts are read as they are"},
    {"id_slot samplers n_keep n_indent min_keep return_progress timings_per_token post_sampling_probs "
     "response_fields return_tokens reasoning_format reasoning_budget reasoning_budget_tokens "
     "reasoning_in_content thinking_forced_open parse_tool_calls chat_format chat_parser preserved_tokens "
     "grammar_triggers grammar_lazy dry_base dry_allowed_length dry_penalty_last_n dry_sequence_breakers "
     "dynatemp_exponent adaptive_decay n_discard n_cache_reuse backend_sampling",
     "left out"},
    // vLLM, SGLang
    {"cache_salt", "left out: prefixes are shared by all"},
    {"priority skip_special_tokens spaces_between_special_tokens request_id session_id session_params "
     "kv_transfer_params ec_transfer_params vllm_xargs stream_interval repetition_detection watermarking "
     "return_token_ids return_tokens_as_token_ids return_prompt_text return_prompt_token_ids "
     "return_meta_info return_cached_tokens_details rid extra_key custom_params custom_labels "
     "separate_reasoning stream_reasoning media_io_kwargs mm_processor_kwargs guided_decoding_backend "
     "guided_whitespace_pattern chat_template_content_format thinking_token_budget thinking_budget "
     "include_reasoning data_parallel_rank routed_dp_rank",
     "left out"},
    // OpenRouter
    {"models", "left out: no other model answers instead"},
    {"provider route transforms plugins usage", "left out"},
};

}  // namespace

RequestFields hint_fields() {
  static const std::vector<RequestField> all = fields_of(kHints);
  return all;
}

}  // namespace lacuna
