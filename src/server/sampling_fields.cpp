// Sampling fields shared by the requests of OpenAI, llama.cpp and Ollama.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <string_view>

#include "decode/adjusted.h"
#include "server/dialect.h"
#include "server/generation_request.h"

namespace lacuna {
namespace {

using nlohmann::ordered_json;

/// Reads {"13": -5} (OpenAI) or [[13, -5], [14, false]] (llama.cpp; false is the lowest bias).
void read_logit_bias(const FieldValue& field, GenerationRequest& request) {
  constexpr std::string_view kExpected = "token ids with numbers: {\"13\": -5} or [[13, -5]]";
  GenerationOptions sent;
  std::map<TokenId, double> by_token;
  const auto add = [&](std::string_view text, const ordered_json& bias) {
    TokenId token = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), token);
    const bool is_token = error == std::errc() && end == text.data() + text.size() && token >= 0;
    if (!is_token || (!bias.is_number() && bias != ordered_json(false))) field.refuse(kExpected);
    const double value = bias.is_number() ? bias.get<double>() : -kMaxBias;
    const auto [known, is_new] = by_token.emplace(token, value);
    if (!is_new && known->second != value)
      throw FieldError(field.place, fmt::format("{} has {} for token {} and {} as well; expected one of them",
                                                field.place, known->second, token, value));
    if (is_new) sent.logit_bias.push_back(fmt::format("{}={}", token, value));
  };
  if (field.value.size() > kMaxLogitBiases) field.refuse(fmt::format("at most {} tokens", kMaxLogitBiases));
  if (field.value.is_object()) {
    for (const auto& [token, bias] : field.value.items()) add(token, bias);
  } else if (field.value.is_array()) {
    for (const ordered_json& pair : field.value) {
      if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number_unsigned()) field.refuse(kExpected);
      add(pair[0].dump(), pair[1]);
    }
  } else {
    field.refuse(kExpected);
  }
  take_setting("logit-bias", field.place, sent, request);
}

void read_stop_tokens(const FieldValue& field, GenerationRequest& request) {
  for (const ordered_json& token : field.list()) {
    if (!token.is_number_unsigned() || token > std::numeric_limits<TokenId>::max())
      field.refuse("a list of token ids");
    request.stop_tokens.push_back(token.get<TokenId>());
  }
  if (request.stop_tokens.size() > kMaxStopTokens)
    field.refuse(fmt::format("at most {} token ids", kMaxStopTokens));
}

void read_best_of(const FieldValue& field, GenerationRequest& request) {
  request.num_candidates = std::max(1, static_cast<int32_t>(field.integer(0, kMaxRequestChoices)));
}

// Sampling settings: those of docs/methods/sampling.md, then unsupported ones of other servers.
constexpr RequestField kSamplingFields[] = {
    {"min_p", kNumber, "without effect at temperature 0", as_setting<setting::kMinP>},
    {"presence_penalty", kNumber, "of tokens that the answer has", as_setting<setting::kPresencePenalty>},
    {"frequency_penalty", kNumber, "the same for each time", as_setting<setting::kFrequencyPenalty>},
    {"repeat_penalty", kNumber, "of tokens that prompt or answer have; 1 or 0: none",
     as_setting<setting::kRepeatPenalty>},
    {"repetition_penalty", kNumber, "the same", as_setting<setting::kRepeatPenalty>},
    {"logit_bias", kAnyValue, "numbers by token ids", read_logit_bias},
    {"stop_token_ids", R"({"type": "array", "items": {"type": "integer"}})", "tokens that end the answer",
     read_stop_tokens},
    {"best_of", kInteger, "answers of which the most confident is given; with n 1", read_best_of},
    {"ignore_eos", kBoolean, "continue after an end token, where the method can",
     as_setting<setting::kIgnoreEos>},
    {"min_tokens", kInteger, "0", refuse_field},
    {"min_new_tokens", kInteger, "0", refuse_field},
    {"bad_words", kList, "empty", refuse_field},
    {"allowed_token_ids", kList, "empty", refuse_field},
    {"logprob_token_ids", kList, "empty", refuse_field},
    {"prompt_logprobs", kInteger, "0; echo with logprobs gives them", refuse_field},
    {"use_beam_search", kBoolean, "false", refuse_field},
    {"include_stop_str_in_output", kBoolean, "false", refuse_field},
    {"no_stop_trim", kBoolean, "false", refuse_field},
    {"stop_regex", kAnyValue, "empty", refuse_field},
    {"truncate_prompt_tokens", kInteger, "-1: no prompt is cut",
     [](const FieldValue& field, GenerationRequest& request) {
       if (field.value != -1) refuse_field(field, request);
     }},
    {"custom_logit_processor", kAnyValue, "empty", refuse_field},
    {"logits_processors", kAnyValue, "empty", refuse_field},
    {"return_hidden_states", kAnyValue, "false", refuse_field},
    {"lora", kList, "empty; --lora of the server says it", refuse_field},
    {"lora_path", kAnyValue, "empty; --lora of the server says it", refuse_field},
    {"input_ids", kList, "empty; completions take token ids as prompt", refuse_field},
    {"prompt_embeds", kAnyValue, "empty", refuse_field},
    {"chat_template", kString, "empty; --chat-template of the server says it", refuse_field},
    {"continue_final_message", kBoolean, "false", refuse_field},
    {"length_penalty", kNumber, "0 or 1", refuse_sampling},
    {"top_n_sigma", kNumber, "0 or -1", refuse_sampling},
    {"adaptive_target", kNumber, "0 or -1", refuse_sampling},
    {"top_a", kNumber, "0", refuse_sampling},
    {"no_repeat_ngram_size", kInteger, "0", refuse_sampling},
    {"typical_p", kNumber, "0 or 1", refuse_sampling},
    {"typ_p", kNumber, "0 or 1", refuse_sampling},
    {"tfs_z", kNumber, "0 or 1", refuse_sampling},
    {"mirostat", kInteger, "0", refuse_sampling},
    {"dynatemp_range", kNumber, "0", refuse_sampling},
    {"xtc_probability", kNumber, "0", refuse_sampling},
    {"dry_multiplier", kNumber, "0", refuse_sampling},
};

}  // namespace

RequestFields sampling_fields() {
  return kSamplingFields;
}

}  // namespace lacuna
