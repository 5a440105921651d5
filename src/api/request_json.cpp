#include "api/request_json.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "api/tools.h"
#include "base/error.h"
#include "base/json.h"
#include "engine/result.h"

namespace lacuna {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void refuse(const std::string& place, const std::string& key, const Json& value,
                         std::string_view expected) {
  throw InputError("{}: {} is {}; expected {}", place, in_quotes(key), in_quotes(value.dump()), expected);
}

std::string text_of(const std::string& place, const std::string& key, const Json& value) {
  if (!value.is_string()) refuse(place, key, value, "a text");
  return value.get<std::string>();
}

int64_t integer_of(const std::string& place, const std::string& key, const Json& value,
                   Range<int64_t> range) {
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() ||
                     value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  const int64_t number = fits ? value.get<int64_t>() : range.first;
  if (!fits || number < range.first || number > range.last) {
    refuse(place, key, value, fmt::format("an integer from {} to {}", range.first, range.last));
  }
  return number;
}

std::vector<std::string> texts_of(const std::string& place, const std::string& key, const Json& value) {
  if (!value.is_array()) refuse(place, key, value, "a list of texts");
  std::vector<std::string> texts;
  for (const Json& text : value) texts.push_back(text_of(place, key, text));
  return texts;
}

OptionValue option_of(const std::string& place, const std::string& key, const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_integer()) {
    return integer_of(place, key, value,
                      {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()});
  }
  if (value.is_number_float()) return value.get<double>();
  if (value.is_object()) return value.dump();  // a JSON schema
  if (value.is_array()) return texts_of(place, key, value);
  refuse(place, key, value, "a number, a text, a list of texts, an object, true or false");
}

std::vector<TokenId> tokens_of(const std::string& place, const Json& value) {
  if (!value.is_array()) refuse(place, "tokens", value, "a list of token ids");
  std::vector<TokenId> tokens;
  tokens.reserve(value.size());
  for (const Json& token : value) {
    tokens.push_back(
        static_cast<TokenId>(integer_of(place, "tokens", token, {0, std::numeric_limits<TokenId>::max()})));
  }
  return tokens;
}

}  // namespace

LoadOptions load_options(const Json& object, const std::string& place) {
  using Text = std::pair<std::string_view, std::string LoadOptions::*>;
  constexpr Text kTexts[] = {{"dtype", &LoadOptions::dtype},
                             {"weights", &LoadOptions::weights},
                             {"head_weights", &LoadOptions::head_weights},
                             {"kv_cache", &LoadOptions::kv_cache},
                             {"activations", &LoadOptions::activations},
                             {"device", &LoadOptions::device},
                             {"guide", &LoadOptions::guide}};
  LoadOptions options;
  for (const auto& [key, value] : object.items()) {
    const auto* text = std::ranges::find(kTexts, key, &Text::first);
    if (text != std::end(kTexts)) {
      options.*text->second = text_of(place, key, value);
    } else if (key == "lora") {
      options.lora = texts_of(place, key, value);
    } else if (key == "threads") {
      options.threads = static_cast<int32_t>(integer_of(place, key, value, {0, 1024}));
    } else if (key == "random_seed") {
      options.random_seed =
          static_cast<uint64_t>(integer_of(place, key, value, {0, std::numeric_limits<int64_t>::max()}));
    } else if (key == "max_running") {
      options.max_running = static_cast<int32_t>(integer_of(place, key, value, {1, 4096}));
    } else if (key == "memory") {
      options.memory = integer_of(place, key, value, {1, std::numeric_limits<int64_t>::max()});
    } else if (key == "ignore_memory") {
      if (!value.is_boolean()) refuse(place, key, value, "true or false");
      options.ignore_memory = value.get<bool>();
    } else {
      throw InputError(
          "{}: {} is not known; expected dtype, weights, head_weights, kv_cache, activations, device, "
          "lora, guide, threads, random_seed, max_running, memory or ignore_memory",
          place, in_quotes(key));
    }
  }
  return options;
}

Options options_of(const Json& object, const std::string& place) {
  Options options;
  for (const auto& [key, value] : object.items()) options.emplace(key, option_of(place, key, value));
  return options;
}

Request request_of(const Json& object, const std::string& place) {
  Request request;
  for (const auto& [key, value] : object.items()) {
    if (key == "prompt") {
      request.prompt = text_of(place, key, value);
    } else if (key == "messages") {
      request.messages = messages_of(place, value);
    } else if (key == "tokens") {
      request.tokens = tokens_of(place, value);
    } else if (key == "stop") {
      if (!value.is_array()) {
        request.stop.push_back(text_of(place, key, value));
        continue;
      }
      for (const Json& text : value) request.stop.push_back(text_of(place, key, text));
    } else if (read_tool_key(place, key, value, request)) {
      continue;
    } else {
      request.options.emplace(key, option_of(place, key, value));
    }
  }
  return request;
}

nlohmann::ordered_json to_json(const ModelInfo& info) {
  return {{"family", info.family},
          {"architecture", info.architecture},
          {"paradigm", info.paradigm},
          {"vocab_size", info.vocab_size},
          {"context", info.context},
          {"num_layers", info.num_layers},
          {"hidden_size", info.hidden_size},
          {"weight_bytes", info.weight_bytes},
          {"mask_token", info.mask_token},
          {"end_tokens", info.end_tokens},
          {"has_tokenizer", info.has_tokenizer},
          {"can_infill", info.can_infill}};
}

nlohmann::ordered_json to_json(const Answer& answer) {
  const Statistics& statistics = answer.statistics;
  return {{"text", answer.text},
          {"tokens", answer.tokens},
          {"prompt_tokens", answer.prompt_tokens},
          {"answer_tokens", answer.answer_tokens},
          {"stop_reason", name_of(answer.stop_reason)},
          {"seed", answer.seed},
          {"stats",
           {{"steps", statistics.steps},
            {"forward_passes", statistics.forward_passes},
            {"rows", statistics.rows},
            {"rows_baseline", statistics.rows_baseline},
            {"flops", statistics.flops},
            {"flops_baseline", statistics.flops_baseline},
            {"seconds", statistics.seconds},
            {"tokens_per_second", statistics.tokens_per_second}}}};
}

}  // namespace lacuna
