#include "server/api_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "options/names.h"
#include "server/settings.h"
#include "server/tool_request.h"

namespace lacuna {
namespace {

using nlohmann::json;

std::string shown(const json& value) {
  return in_quotes(value.dump(-1, ' ', false, json::error_handler_t::replace));
}

/// The value of a key that was given, and not as null.
const json* find(const json& object, std::string_view key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

bool read_flag(const json& object, std::string_view key) {
  const json* value = find(object, key);
  if (value == nullptr) return false;
  if (!value->is_boolean()) throw InputError("{} is {}; expected true or false", key, shown(*value));
  return value->get<bool>();
}

int64_t integer_in(const json& value, std::string_view place, int64_t least, int64_t most) {
  const bool is_whole = value.is_number_integer() &&
                        (!value.is_number_unsigned() || value.get<uint64_t>() <= uint64_t{1} << 62);
  if (!is_whole || value.get<int64_t>() < least || value.get<int64_t>() > most) {
    throw InputError("{} is {}; expected a whole number from {} to {}", place, shown(value), least, most);
  }
  return value.get<int64_t>();
}

/// Reads a setting and remembers the key that it came by.
void take_setting(std::string_view key, const json& value, std::string_view place,
                  GenerationRequest& request) {
  expect_setting(key, value, place, request.options);
  if (value.is_null()) return;
  request.keys[with_underscores(setting_named(key))] = fmt::format("{}{}", place, key);
}

/// Fields that ask for what no method here does, unless they ask for nothing.
void refuse_unsupported(const json& body) {
  for (const char* key : {"presence_penalty", "frequency_penalty", "min_p", "typical_p"}) {
    const json* value = find(body, key);
    if (value != nullptr && *value != 0) {
      throw InputError("{} is {}; this server draws by temperature, top_p and top_k alone", key,
                       shown(*value));
    }
  }
  for (const char* key : {"logit_bias", "grammar"}) {
    const json* value = find(body, key);
    if (value != nullptr && !value->empty()) {
      throw InputError("{} is not supported; response_format and regex constrain an answer", key);
    }
  }
  refuse_legacy_functions(body);
}

/// Where there is no conversation to describe them in.
void refuse_tools(const json& body) {
  const json* tools = body.is_object() ? find(body, "tools") : nullptr;
  if (tools != nullptr && !tools->empty()) {
    throw InputError("tools has no effect here; POST /v1/chat/completions takes tools");
  }
}

/// Values that every client sends and that change nothing where the best token is taken.
void drop_idle_filters(const json& body, GenerationOptions& options) {
  const bool draws = options.temperature.value_or(0) > 0;
  if (draws) return;
  if (find(body, "top_p") != nullptr) options.top_p.reset();
  if (find(body, "top_k") != nullptr) options.top_k.reset();
}

/// `threshold` as lmdeploy, SGLang and mlx-vlm take it: every position that is surer is written.
void read_threshold(const json& body, GenerationOptions& options) {
  for (const char* key : {"threshold", "confidence_threshold", "dllm_confidence_threshold"}) {
    const json* value = find(body, key);
    if (value == nullptr) continue;
    if (!value->is_number() || *value <= 0 || *value > 1) {
      throw InputError("{} is {}; expected a number in (0, 1]", key, shown(*value));
    }
    options.unmask = "threshold=" + value->dump();
  }
}

void read_stop(const json& body, GenerationRequest& request) {
  request.stop = std::move(request.options.stop);
  request.options.stop.clear();
  if (const json* stop = find(body, "stop")) {
    GenerationOptions given;
    read_setting("stop", *stop, "", given);
    request.stop = given.stop;
  }
  std::erase(request.stop, std::string());
  const auto is_long = [](const std::string& stop) { return stop.size() > kMostStopBytes; };
  if (request.stop.size() > kMostStops || std::any_of(request.stop.begin(), request.stop.end(), is_long)) {
    throw InputError("stop holds too much; expected at most {} texts of at most {} bytes", kMostStops,
                     kMostStopBytes);
  }
}

void read_logprobs(const json& body, GenerationRequest& request) {
  const json* logprobs = find(body, "logprobs");
  if (logprobs == nullptr) return;
  if (logprobs->is_boolean()) {
    request.wants_logprobs = logprobs->get<bool>();
    return;
  }
  integer_in(*logprobs, "logprobs", 0, 20);
  request.wants_logprobs = true;
}

void read_own_settings(const json& own, GenerationRequest& request) {
  request.events = read_flag(own, "events");
  const json* guide = find(own, "guide");
  if (guide != nullptr && !read_flag(own, "guide")) {  // not even by default
    request.options.guide_match.reset();
    request.options.guide_fallback.reset();
    request.options.guide_block.reset();
  }
  request.uses_guide = guide != nullptr && guide->get<bool>();
  const auto read = [&](const char* key, int64_t most) -> std::optional<int32_t> {
    const json* value = find(own, key);
    if (value == nullptr) return {};
    return static_cast<int32_t>(integer_in(*value, fmt::format("lacuna.{}", key), 1, most));
  };
  request.given_tokens = read("given_tokens", std::numeric_limits<int32_t>::max());
  request.likelihood_draws = read("likelihood_draws", kMostLikelihoodDraws);
  constexpr std::array<std::string_view, 4> kRead = {"events", "guide", "given_tokens", "likelihood_draws"};
  for (const auto& [key, value] : own.items()) {
    if (std::find(kRead.begin(), kRead.end(), key) == kRead.end()) {
      take_setting(key, value, "lacuna.", request);
    }
  }
}

///   skipped  a key that the caller has read
GenerationRequest read_common(const json& body, const GenerationOptions& defaults,
                              std::string_view skipped = "") {
  if (!body.is_object()) throw InputError("the body is no JSON object");
  GenerationRequest request;
  request.options = defaults;
  refuse_unsupported(body);
  for (const auto& [key, value] : body.items()) {
    // llama.cpp's clients ask for any seed, or for any length, with -1.
    const bool is_any = value.is_number_integer() && value == -1;
    if (!is_any && key != skipped && is_common_name(key)) take_setting(key, value, "", request);
  }
  if (const json* most = find(body, "max_completion_tokens")) {
    read_setting("gen-length", *most, "", request.options);
    request.keys["gen_length"] = "max_completion_tokens";
  }
  read_threshold(body, request.options);
  drop_idle_filters(body, request.options);
  if (const json* own = find(body, "lacuna")) {
    if (!own->is_object()) throw InputError("lacuna is {}; expected an object of settings", shown(*own));
    read_own_settings(*own, request);
  }
  const GenerationOptions& options = request.options;
  if (options.guide_match || options.guide_fallback || options.guide_block) request.uses_guide = true;
  read_stop(body, request);
  read_logprobs(body, request);
  request.stream = read_flag(body, "stream");
  if (const json* stream = find(body, "stream_options")) {
    if (!stream->is_object()) throw InputError("stream_options is {}; expected an object", shown(*stream));
    request.include_usage = read_flag(*stream, "include_usage");
  }
  if (const json* n = find(body, "n")) {
    request.num_choices = static_cast<int32_t>(integer_in(*n, "n", 1, kMostChoices));
  }
  return request;
}

std::string read_content(const json& message) {
  const json* content = find(message, "content");
  if (content == nullptr) return {};
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) throw InputError("content is {}; expected text", shown(*content));
  std::string text;
  for (const json& part : *content) {
    const json* piece =
        part.is_object() && part.value("type", json()) == "text" ? find(part, "text") : nullptr;
    if (piece == nullptr || !piece->is_string()) {
      throw InputError("content holds {}; expected parts {{\"type\": \"text\", \"text\": ...}}", shown(part));
    }
    text += piece->get<std::string>();
  }
  return text;
}

Prompt read_prompt(const json& prompt) {
  if (prompt.is_string()) return prompt.get<std::string>();
  return parse_tokens(prompt, "prompt");
}

Hole read_hole(const json& hole) {
  if (hole.is_object()) {
    Hole result;
    const json* most = find(hole, "max");
    if (most == nullptr) {
      if (hole.empty()) return {.most = kOpenHoleMost, .is_open = true};
      throw InputError("hole is {}; expected {{\"min\": A, \"max\": B}}, or {{}} for any length",
                       shown(hole));
    }
    result.most = static_cast<int32_t>(integer_in(*most, "hole.max", 1, kMostHoleTokens));
    const json* least = find(hole, "min");
    if (least != nullptr) {
      result.least = static_cast<int32_t>(integer_in(*least, "hole.min", 1, result.most));
    }
    return result;
  }
  const auto size = static_cast<int32_t>(integer_in(hole, "hole", 1, kMostHoleTokens));
  return {size, size};
}

/// Ids, with null where one is to be filled in.
void add_tokens(const json& list, std::string_view place, std::vector<CanvasPart>& canvas) {
  if (!list.is_array()) throw InputError("{} is {}; expected a list of token ids", place, shown(list));
  for (const json& token : list) {
    if (token.is_null()) {
      canvas.emplace_back(Hole{});
    } else {
      canvas.emplace_back(
          static_cast<TokenId>(integer_in(token, place, 0, std::numeric_limits<TokenId>::max())));
    }
  }
}

void add_part(const json& part, std::vector<CanvasPart>& canvas) {
  if (part.is_string()) {
    canvas.emplace_back(part.get<std::string>());
    return;
  }
  const json* hole = part.is_object() ? find(part, "hole") : nullptr;
  const json* tokens = part.is_object() ? find(part, "tokens") : nullptr;
  if (hole != nullptr) {
    canvas.emplace_back(read_hole(*hole));
  } else if (tokens != nullptr) {
    add_tokens(*tokens, "tokens", canvas);
  } else {
    throw InputError("input holds {}; expected text, {{\"hole\": N}} or {{\"tokens\": [...]}}", shown(part));
  }
}

/// Makes holes of the places that are named, or of all but those that are pinned.
void apply_mask(const json& body, std::vector<CanvasPart>& canvas) {
  const json* mask = find(body, "mask");
  const json* pinned = find(body, "diffusion_pinned");
  if (mask == nullptr && pinned == nullptr) return;
  if (mask != nullptr && pinned != nullptr) throw InputError("mask and diffusion_pinned exclude each other");
  const json& list = mask != nullptr ? *mask : *pinned;
  const std::string_view place = mask != nullptr ? "mask" : "diffusion_pinned";
  if (!list.is_array()) throw InputError("{} is {}; expected a list", place, shown(list));
  std::vector<bool> named(canvas.size(), false);
  const auto is_flag = [](const json& value) { return value.is_boolean(); };
  if (list.size() == canvas.size() && std::all_of(list.begin(), list.end(), is_flag)) {
    for (size_t i = 0; i < canvas.size(); ++i) named[i] = list[i].get<bool>();
  } else {
    if (canvas.empty() && !list.empty()) {
      throw InputError("{} names positions of an empty list of tokens; expected at least one token", place);
    }
    for (const json& index : list) {
      named.at(static_cast<size_t>(integer_in(index, place, 0, static_cast<int64_t>(canvas.size()) - 1))) =
          true;
    }
  }
  for (size_t i = 0; i < canvas.size(); ++i) {
    if (named[i] == (mask != nullptr)) canvas[i] = Hole{};
  }
}

std::vector<CanvasPart> read_canvas(const json& body) {
  std::vector<CanvasPart> canvas;
  const json* tokens = find(body, "tokens");
  if (tokens == nullptr) tokens = find(body, "diffusion_seed_canvas");
  const json* input = find(body, "input");
  const json* prefix = find(body, "input_prefix");
  const json* suffix = find(body, "input_suffix");
  const int sources = (tokens != nullptr) + (input != nullptr) + (prefix != nullptr || suffix != nullptr);
  if (sources != 1) {
    throw InputError("expected one of input, tokens and input_prefix with input_suffix; found {}", sources);
  }
  if (tokens != nullptr) {
    add_tokens(*tokens, "tokens", canvas);
    apply_mask(body, canvas);
  } else if (input != nullptr) {
    if (!input->is_array()) throw InputError("input is {}; expected a list of parts", shown(*input));
    for (const json& part : *input) add_part(part, canvas);
  } else {
    for (const json* text : {prefix, suffix}) {
      if (text != nullptr && !text->is_string()) {
        throw InputError("input_prefix or input_suffix is {}; expected text", shown(*text));
      }
    }
    if (prefix != nullptr) canvas.emplace_back(prefix->get<std::string>());
    canvas.emplace_back(Hole{});  // as long as n_predict says
    if (suffix != nullptr) canvas.emplace_back(suffix->get<std::string>());
  }
  return canvas;
}

/// Makes an infill of a prompt and what follows it: the hole between them has max_tokens at most.
void read_suffix(const json& body, GenerationRequest& request) {
  const json* suffix = find(body, "suffix");
  if (suffix == nullptr || *suffix == json("")) return;
  if (!suffix->is_string()) throw InputError("suffix is {}; expected text", shown(*suffix));
  const auto* prompt =
      request.prompts.size() == 1 ? std::get_if<std::string>(&request.prompts.front()) : nullptr;
  if (prompt == nullptr) throw InputError("suffix needs a prompt that is one text, which it follows");
  if (request.wants_logprobs || request.echoes) {
    throw InputError("suffix: echo and logprobs are of what continues a prompt; expected neither");
  }
  if (!request.stop.empty()) throw InputError("stop has no effect here: an infill fills its hole");
  const int32_t most = request.options.gen_length.value_or(kOpenHoleMost);
  if (most < 1 || most > kMostHoleTokens) {
    throw InputError("max_tokens is {}; expected 1 to {} with a suffix", most, kMostHoleTokens);
  }
  request.options.gen_length = AnswerLength();
  if (!prompt->empty()) request.canvas.emplace_back(*prompt);
  request.canvas.emplace_back(Hole{.most = most, .is_open = true});
  request.canvas.emplace_back(suffix->get<std::string>());
  request.prompts.clear();
  request.inserts = true;
}

}  // namespace

std::optional<std::string> GenerationRequest::name_of(std::string_view field) const {
  const auto sent = keys.find(field);
  return sent != keys.end() ? sent->second : request_name(field);
}

json parse_body(std::string_view body) {
  // Bounds nesting and the number of values, and refuses a key that comes twice.
  return parse_json(body, "the body", kMostBodyValues);
}

std::vector<TokenId> parse_tokens(const json& list, std::string_view place) {
  if (!list.is_array())
    throw InputError("{} is {}; expected text or a list of token ids", place, shown(list));
  std::vector<TokenId> tokens;
  for (const json& token : list) {
    tokens.push_back(static_cast<TokenId>(integer_in(token, place, 0, std::numeric_limits<TokenId>::max())));
  }
  return tokens;
}

std::vector<Message> parse_messages(const json& body) {
  const json* list = body.is_object() ? find(body, "messages") : nullptr;
  if (list == nullptr || !list->is_array() || list->empty()) {
    throw InputError("messages is missing; expected a list of at least one message");
  }
  std::vector<Message> messages;
  ToolHistory history;
  for (size_t i = 0; i < list->size(); ++i) {
    const json& message = (*list)[i];
    const json* role = message.is_object() ? find(message, "role") : nullptr;
    if (role == nullptr || !role->is_string()) {
      throw InputError("messages holds {}; expected \"role\" and \"content\"", shown(message));
    }
    const std::string place = fmt::format("messages.{}", i);
    std::string content = read_content(message);
    if (*role == "function") {
      throw InputError("{}.role is \"function\", which is not supported; use \"tool\" and tools", place);
    }
    if (*role == "tool") {
      history.add_result(message, place, content, messages);
      continue;
    }
    if (*role == "assistant") content = history.with_calls(message, place, content);
    messages.push_back({role->get<std::string>(), std::move(content)});
  }
  return messages;
}

GenerationRequest parse_chat_request(const json& body, const GenerationOptions& defaults) {
  GenerationRequest request = read_common(body, defaults);
  request.prompts.emplace_back(parse_messages(body));
  return request;
}

GenerationRequest parse_completion_request(const json& body, const GenerationOptions& defaults) {
  const json* most = body.is_object() ? find(body, "max_tokens") : nullptr;
  const bool scores_only = most != nullptr && *most == 0;
  refuse_tools(body);
  GenerationRequest request = read_common(body, defaults, scores_only ? "max_tokens" : "");
  request.scores_only = scores_only;
  const json* prompt = find(body, "prompt");
  if (prompt == nullptr) throw InputError("prompt is missing; expected text or token ids");
  const bool is_list = prompt->is_array() && !prompt->empty() && !prompt->front().is_number();
  if (is_list) {
    for (const json& each : *prompt) request.prompts.push_back(read_prompt(each));
  } else {
    request.prompts.push_back(read_prompt(*prompt));
  }
  if (request.prompts.size() * static_cast<size_t>(request.num_choices) > size_t{kMostChoices}) {
    throw InputError("{} prompts with n = {} make more than {} choices", request.prompts.size(),
                     request.num_choices, kMostChoices);
  }
  request.echoes = read_flag(body, "echo");
  if (scores_only && !(request.echoes && request.wants_logprobs)) {
    throw InputError("max_tokens is 0; expected at least 1, or echo with logprobs");
  }
  read_suffix(body, request);
  return request;
}

GenerationRequest parse_infill_request(const json& body, const GenerationOptions& defaults) {
  refuse_tools(body);
  GenerationRequest request = read_common(body, defaults);
  request.canvas = read_canvas(body);
  if (const json* steps = find(body, "diffusion_max_steps")) {
    read_setting("steps", *steps, "", request.options);
    request.keys["steps"] = "diffusion_max_steps";
  }
  if (find(body, "input_prefix") != nullptr || find(body, "input_suffix") != nullptr) {
    const int32_t size = request.options.gen_length.value_or(16);
    if (size < 1 || size > kMostHoleTokens) {
      throw InputError("n_predict is {}; expected 1 to {}", size, kMostHoleTokens);
    }
    for (CanvasPart& part : request.canvas) {
      if (std::holds_alternative<Hole>(part)) part = Hole{size, size};
    }
  }
  request.options.gen_length = AnswerLength();
  if (request.canvas.size() > kMostCanvasParts) {
    throw InputError("the canvas has {} parts; expected at most {}", request.canvas.size(), kMostCanvasParts);
  }
  const auto is_hole = [](const CanvasPart& part) { return std::holds_alternative<Hole>(part); };
  if (std::none_of(request.canvas.begin(), request.canvas.end(), is_hole)) {
    throw InputError("the canvas has no hole; expected {\"hole\": N}, or null among the tokens");
  }
  if (!request.stop.empty()) throw InputError("stop has no effect here: an infill fills its holes");
  return request;
}

}  // namespace lacuna
