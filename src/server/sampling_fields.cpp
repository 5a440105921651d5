// The fields of sampling that OpenAI's, llama.cpp's and Ollama's requests share.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "decode/adjusted.h"
#include "server/api_request.h"
#include "server/dialect.h"

namespace lacuna {
namespace {

using nlohmann::json;

/// {"13": -5} as OpenAI has it, or [[13, -5], [14, false]] as llama.cpp has it: false is as little as may be.
void read_logit_bias(const FieldValue& field, GenerationRequest& request) {
  constexpr std::string_view kExpected = "token ids with numbers: {\"13\": -5} or [[13, -5]]";
  std::vector<std::string>& biases = request.options.logit_bias;
  const auto add = [&](const std::string& token, const json& bias) {
    if (token.empty() ||
        !std::all_of(token.begin(), token.end(), [](char c) { return c >= '0' && c <= '9'; }))
      field.refuse(kExpected);
    if (!bias.is_number() && bias != json(false)) field.refuse(kExpected);
    biases.push_back(fmt::format("{}={}", token, bias.is_number() ? bias.get<double>() : -kMaxBias));
  };
  if (field.value.size() > kMaxLogitBiases) field.refuse(fmt::format("at most {} tokens", kMaxLogitBiases));
  biases.clear();
  if (field.value.is_object()) {
    for (const auto& [token, bias] : field.value.items()) add(token, bias);
  } else if (field.value.is_array()) {
    for (const json& pair : field.value) {
      if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number_unsigned()) field.refuse(kExpected);
      add(pair[0].dump(), pair[1]);
    }
  } else {
    field.refuse(kExpected);
  }
  request.keys["logit_bias"] = field.place;
}

/// 0 is what some clients send for none.
void read_repeat_penalty(const FieldValue& field, GenerationRequest& request) {
  if (field.value.is_number() && field.value == 0) return;
  read_setting_field(setting::kRepeatPenalty, field, request);
}

void read_stop_tokens(const FieldValue& field, GenerationRequest& request) {
  for (const json& token : field.list()) {
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

// Settings of samplings: those of docs/methods/sampling.md, and those that no method here has.
constexpr RequestField kSamplingFields[] = {
    {"min_p", R"({"type": "number"})", "without effect at temperature 0", as_setting<setting::kMinP>},
    {"presence_penalty", R"({"type": "number"})", "of tokens that the answer has",
     as_setting<setting::kPresencePenalty>},
    {"frequency_penalty", R"({"type": "number"})", "the same for each time",
     as_setting<setting::kFrequencyPenalty>},
    {"repeat_penalty", R"({"type": "number"})", "of tokens that prompt or answer have; 1: none",
     read_repeat_penalty},
    {"repetition_penalty", R"({"type": "number"})", "the same", read_repeat_penalty},
    {"logit_bias", R"({})", "numbers by token ids", read_logit_bias},
    {"stop_token_ids", R"({"type": "array", "items": {"type": "integer"}})", "tokens that end the answer",
     read_stop_tokens},
    {"best_of", R"({"type": "integer"})", "answers of which the most confident is given; with n 1",
     read_best_of},
    {"ignore_eos", R"({"type": "boolean"})", "continue after an end token, where the method can",
     as_setting<setting::kIgnoreEos>},
    {"typical_p", R"({"type": "number"})", "0 or 1", refuse_sampling},
    {"tfs_z", R"({"type": "number"})", "0 or 1", refuse_sampling},
    {"mirostat", R"({"type": "integer"})", "0", refuse_sampling},
    {"dynatemp_range", R"({"type": "number"})", "0", refuse_sampling},
    {"xtc_probability", R"({"type": "number"})", "0", refuse_sampling},
    {"dry_multiplier", R"({"type": "number"})", "0", refuse_sampling},
};

}  // namespace

RequestFields sampling_fields() {
  return kSamplingFields;
}

}  // namespace lacuna
