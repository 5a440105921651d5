#include "server/api_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "options/names.h"
#include "server/answer_format.h"
#include "server/api_error.h"
#include "server/dialect.h"
#include "server/infill_request.h"
#include "server/message_parts.h"
#include "server/openai_format.h"
#include "server/prompts.h"
#include "server/request_fields.h"
#include "server/settings.h"
#include "server/tool_request.h"

namespace lacuna {
namespace {

using nlohmann::ordered_json;

bool read_flag(const ordered_json& object, std::string_view key) {
  const ordered_json* value = find_value(object, key);
  return value != nullptr && FieldValue{std::string(key), *value}.flag();
}

/// Whether a setting was sent at the top level instead of in "lacuna".
bool is_sent_outside(const GenerationRequest& request, std::string_view setting) {
  const auto key = request.keys.find(setting);
  return key != request.keys.end() && !key->second.starts_with("lacuna.");
}

/// Reads lmdeploy's, SGLang's and mlx-vlm's `threshold`: all positions above this confidence are committed.
void read_threshold(const FieldValue& field, GenerationRequest& request) {
  const ordered_json& value = field.value;
  if (!value.is_number() || value <= 0 || value > 1) field.refuse("a number in (0, 1]");
  GenerationOptions sent;
  sent.unmask = "threshold=" + value.dump();
  take_setting("unmask", field.place, sent, request);
}

/// Reads logprobs: a boolean with top_logprobs (chats) or a number (completions).
void read_logprobs(const FieldValue& field, GenerationRequest& request) {
  if (field.value.is_boolean()) {
    request.wants_logprobs = field.flag();
    return;
  }
  request.wants_logprobs = true;
  set_alternatives(field.integer(0, kMaxAlternatives), field, request);
}

void read_top_logprobs(const FieldValue& field, GenerationRequest& request) {
  const int64_t count = field.integer(0, kMaxAlternatives);
  if (count > 0 && !request.wants_logprobs) field.refuse("logprobs: true with it");
  set_alternatives(count, field, request);
}

void read_stream_options(const FieldValue& field, GenerationRequest& request) {
  request.include_usage = read_flag(field.object(), "include_usage");
}

// Common fields of chats, completions and infills.
constexpr RequestField kCommonFields[] = {
    {"model", kString, "a model of this server"},
    {"audio", kAnyValue, "empty: answers are text", refuse_field},
    {"functions", kList, "empty; tools replace it"},
    {"function_call", kAnyValue, "empty; tool_choice replaces it"},
    {"grammar", kString, "a grammar in llama.cpp's notation"},
    {"guided_grammar", kString, "the same"},
    {"ebnf", kString, "the same"},
    {"max_tokens", kInteger, "the most positions of the answer", read_open_limit},
    {"max_completion_tokens", kInteger, "the same", read_open_limit},
    {"max_new_tokens", kInteger, "the same", read_open_limit},
    {"n_predict", kInteger, "the same; -1: the default", read_open_limit},
    {"predict", kInteger, "the same", read_open_limit},
    {"temperature", kNumber, "0: the likeliest token", as_setting<setting::kTemperature>},
    {"top_p", kNumber, "without effect at temperature 0", as_setting<setting::kTopP>},
    {"top_k", kInteger, "without effect at temperature 0; 0 or -1: off", as_setting<setting::kTopK>},
    {"seed", kInteger, "of all sampling; -1: the default", read_seed},
    {"threshold", kNumber, "unmask every position that is surer", read_threshold},
    {"confidence_threshold", kNumber, "the same", read_threshold},
    {"dllm_confidence_threshold", kNumber, "the same", read_threshold},
    {"stream", kBoolean, "server-sent events in the place of one object",
     as_flag<&GenerationRequest::stream>},
    {"stream_options", kObject, "include_usage: a last chunk with usage and timings", read_stream_options},
    {"n", R"({"type": "integer", "minimum": 1, "maximum": 128})", "choices", read_num_choices},
    {"response_format", kObject, "type text, json_object or json_schema"},
    {"structured_outputs", kObject, "json, regex, choice, grammar or json_object"},
    {"guided_json", kAnyValue, "a JSON schema"},
    {"guided_regex", kString, "a regular expression"},
    {"guided_choice", kStrings, "texts, one of which is the answer"},
    {"json_schema", kAnyValue, "a JSON schema"},
    {"regex", kString, "a regular expression"},
    {"format", kAnyValue, "json or a JSON schema"},
};

// Fields that must be read after "lacuna".
constexpr RequestField kLastFields[] = {
    {"stop", kTextOrTexts, "up to 16 texts that end the answer", read_stop_texts},
    {"logprobs", R"({"type": ["boolean", "integer"]})",
     "logarithms of confidences; a number lists alternatives", read_logprobs},
    {"top_logprobs", kAlternativeCount, "tokens that are listed for each position, with logprobs",
     read_top_logprobs},
};

/// Completes a request once its fields are read.
void complete_request(GenerationRequest& request) {
  GenerationOptions& options = request.options;
  // Clients always send these filters, which have no effect without sampling.
  if (!(options.temperature.value_or(0) > 0)) {
    if (is_sent_outside(request, "top_p")) options.top_p.reset();
    if (is_sent_outside(request, "top_k")) options.top_k.reset();
  }
  if (request.num_candidates > 1 && request.num_choices > 1 && request.num_candidates != request.num_choices)
    throw FieldError("best_of", fmt::format("best_of is {} and n is {}; expected n 1, or the same number",
                                            request.num_candidates, request.num_choices));
  if (request.num_choices > 1) request.num_candidates = 1;
  if (options.guide_match || options.guide_fallback || options.guide_block) request.uses_guide = true;
  request.stop = std::move(options.stop);
  options.stop.clear();
  std::erase(request.stop, std::string());
  const auto is_long = [](const std::string& stop) { return stop.size() > kMaxStopBytes; };
  if (request.stop.size() > kMaxStops || std::any_of(request.stop.begin(), request.stop.end(), is_long)) {
    const std::string key = request.name_of("stop").value_or("stop");
    throw FieldError(key, fmt::format("{} holds too much; expected at most {} texts of at most {} bytes", key,
                                      kMaxStops, kMaxStopBytes));
  }
}

/// Whether a list has a reader for a key other than read_threshold(), whose key may also be a setting.
bool has_reader(RequestFields fields, std::string_view key) {
  return std::any_of(fields.begin(), fields.end(), [&](const RequestField& field) {
    return field.name == key && field.read != nullptr && field.read != read_threshold;
  });
}

GenerationRequest read_common(const ordered_json& body, const GenerationOptions& defaults,
                              RequestFields fields) {
  if (!body.is_object()) throw InputError("the body is not a JSON object");
  GenerationRequest request;
  request.options = defaults;
  for (const auto& [key, value] : body.items()) {
    if (is_common_name(key) && !has_reader(fields, key)) read_named_setting(key, value, "", request);
  }
  read_fields(body, "", fields, request);
  complete_request(request);
  refuse_legacy_functions(body);
  return request;
}

ordered_json without(ordered_json body, const char* key) {
  body.erase(key);
  return body;
}

/// Refuses tools in requests without a conversation.
void refuse_tools(const ordered_json& body) {
  const ordered_json* tools = find_value(body, "tools");
  if (tools != nullptr && !tools->empty()) {
    throw FieldError("tools",
                     "tools has no effect here; chats take tools, such as POST /v1/chat/completions");
  }
}

/// Ignores stop texts, which editors send by default: a hole ends where the text after it begins.
void leave_out_stops(GenerationRequest& request) {
  if (!request.stop.empty()) leave_out(request.name_of("stop").value_or("stop"), request);
  request.stop.clear();
}

/// Refuses stop texts: an infill's text has a given end.
void refuse_stops(const GenerationRequest& request) {
  if (request.stop.empty()) return;
  const std::string key = request.name_of("stop").value_or("stop");
  throw FieldError(key, key + " has no effect here: an infill fills its holes");
}

}  // namespace

/// Number of tokens of the hole, at most kMaxHoleTokens: longer limits are lowered, and a longer canvas
/// length is a FieldError.
///   usual  default if the request does not set it
int32_t hole_tokens(GenerationRequest& request, int32_t usual) {
  const int32_t size = request.options.gen_length.value_or(usual);
  const std::string key = request.name_of("gen_length").value_or("max_tokens");
  if (request.caps_length && size > kMaxHoleTokens) {
    lower_limit(kMaxHoleTokens, request);
    return kMaxHoleTokens;
  }
  if (size < 1 || size > kMaxHoleTokens)
    throw FieldError(key, fmt::format("{} is {}; expected 1 to {}", key, size, kMaxHoleTokens));
  return size;
}

void read_suffix(const ordered_json& body, GenerationRequest& request) {
  const ordered_json* suffix = find_value(body, "suffix");
  if (suffix == nullptr || *suffix == ordered_json("")) return;
  std::string after = FieldValue{"suffix", *suffix}.text();
  const auto* prompt =
      request.prompts.size() == 1 ? std::get_if<std::string>(&request.prompts.front()) : nullptr;
  if (prompt == nullptr)
    throw FieldError("suffix", "suffix needs a prompt that is one text, which it follows");
  if (request.wants_logprobs || request.echoes) {
    throw FieldError("suffix", "suffix: echo and logprobs are of what continues a prompt; expected neither");
  }
  leave_out_stops(request);
  const int32_t most = hole_tokens(request, kOpenHoleMost);
  request.options.gen_length = AnswerLength();
  if (!prompt->empty()) request.canvas.emplace_back(*prompt);
  request.canvas.emplace_back(Hole{.most = most, .is_open = true});
  request.canvas.emplace_back(std::move(after));
  request.prompts.clear();
  request.inserts = true;
}

ordered_json without_zero_length(const ordered_json& body, GenerationRequest& request) {
  const ordered_json* length = find_value(body, "n_predict");
  if (length == nullptr || (*length != 0 && *length != -2)) return body;
  if (*length == 0) request.answers_nothing = "length";
  return without(body, "n_predict");
}

void take_zero_length(const GenerationRequest& length, GenerationRequest& request) {
  request.answers_nothing = length.answers_nothing;
  const auto other = request.keys.find("gen_length");
  if (!request.answers_nothing.empty() && other != request.keys.end())
    refuse_contradiction("n_predict", other->second);
}

namespace {

constexpr RequestField kChatFields[] = {
    {"messages", kObjects, "a list of at least one message"},
    {"tools", kObjects, "functions that the answer may call"},
    {"tool_choice", R"({"type": ["string", "object"]})", "none, auto, required or one function"},
    {"parallel_tool_calls", kBoolean, "whether an answer may have several calls"},
    {"chat_template_kwargs", kObject, "variables of the chat template, such as enable_thinking"},
    {"enable_thinking", kBoolean, "the same as in chat_template_kwargs"},
    {"reasoning_effort", kString, "the same; without effect on templates that do not read it"},
    {"documents", kObjects, "documents for templates that show some"},
    {"add_generation_prompt", kBoolean, "whether the prompt ends with the beginning of an answer"},
    {"continue_final_message", kBoolean, "whether the answer continues the last message, the assistant's"},
};

constexpr RequestField kPromptFields[] = {
    {"prompt", kAnyValue, "text, token ids or both, or a list of prompts", read_prompts, true},
    {"echo", kBoolean, "the prompt before the answer", as_flag<&GenerationRequest::echoes>},
    {"suffix", kString, "text that follows what is filled in"},
};

constexpr RequestField kInfillFields[] = {
    {"input", kList, "texts, holes and tokens"},
    {"tokens", kList, "token ids, null for a hole"},
    {"mask", kList, "positions of tokens that are holes"},
    {"input_prefix", kString, "text before the hole"},
    {"input_suffix", kString, "text after it"},
    {"prompt", kString, "the line before the hole, between input_prefix and it"},
    {"input_extra", kList, "left out: other files", leave_out_field},
    {"diffusion_seed_canvas", kList, "the same as tokens"},
    {"diffusion_pinned", kList, "positions of tokens that are not holes"},
    {"diffusion_max_steps", kInteger, "steps"},
};

RequestFields chat_fields() {
  static const std::vector<RequestField> all =
      join({kChatFields, kCommonFields, sampling_fields(), hint_fields(), own_fields(), kLastFields});
  return all;
}

RequestFields completion_fields() {
  static const std::vector<RequestField> all =
      join({kPromptFields, kCommonFields, sampling_fields(), hint_fields(), own_fields(), kLastFields});
  return all;
}

RequestFields infill_fields() {
  static const std::vector<RequestField> all =
      join({kInfillFields, kCommonFields, sampling_fields(), hint_fields(), own_fields(), kLastFields});
  return all;
}

}  // namespace

ordered_json parse_body(std::string_view body) {
  // Also limits nesting and refuses duplicate keys.
  return parse_ordered_json(body, "the body", kMaxBodyValues);
}

namespace {

Conversation read_messages(const ordered_json* list, GenerationRequest& request) {
  if (list == nullptr || !list->is_array() || list->empty()) {
    throw InputError("messages is missing; expected a list of at least one message");
  }
  Conversation conversation;
  ChatHistory history;
  for (size_t i = 0; i < list->size(); ++i) {
    const ordered_json& message = (*list)[i];
    const ordered_json* role = find_value(message, "role");
    if (role == nullptr || !role->is_string()) {
      throw InputError("messages holds {}; expected \"role\" and \"content\"", shown(message));
    }
    const std::string place = fmt::format("messages.{}", i);
    constexpr size_t kMaxFields = 256;  // bounds the quadratic time of key lookups
    if (message.size() > kMaxFields)
      throw InputError("{} has {} fields; expected at most {}", place, message.size(), kMaxFields);
    const ordered_json* part = find_value(message, "content");
    const ordered_json content = part == nullptr
                                     ? ordered_json("")
                                     : read_content({place + ".content", *part}, *role == "tool", request);
    if (*role == "tool") {
      history.add_message(message, place, content, conversation);
      continue;
    }
    ordered_json& added = conversation.add(role_of_turn(role->get<std::string>()), "");
    added["content"] = content;
    if (*role == "assistant") history.add_calls_of(message, place, added);
    for (const auto& [key, value] : message.items()) {  // fields for templates, such as reasoning_content
      if (!added.contains(key) && key != "tool_calls" && !value.is_null()) added[key] = value;
    }
  }
  return conversation;
}

void read_keywords(const ordered_json& body, Conversation& conversation) {
  constexpr const char* kKeywords = "chat_template_kwargs";
  if (const ordered_json* value = find_value(body, kKeywords))
    conversation.keywords = FieldValue{kKeywords, *value}.object();
  in_field(kKeywords, [&] { check_template_keywords(conversation.keywords); });
  for (const char* key : {"enable_thinking", "reasoning_effort"}) {
    const ordered_json* value = find_value(body, key);
    if (value == nullptr) continue;
    const FieldValue field{key, *value};
    const bool is_effort = key != std::string_view("enable_thinking");
    if (is_effort) {
      (void)field.text();
    } else {
      (void)field.flag();
    }
    const auto before = conversation.keywords.find(key);
    if (before != conversation.keywords.end() && !before->is_null() && *before != *value)
      refuse_contradiction(fmt::format("{}.{}", kKeywords, key), key);
    conversation.keywords[key] = *value;
    if (is_effort) set_effort(value->get<std::string>(), conversation);
  }
  if (const ordered_json* documents = find_value(body, "documents"))
    conversation.documents = FieldValue{"documents", *documents}.list();
  if (const ordered_json* flag = find_value(body, "add_generation_prompt"))
    conversation.add_generation_prompt = FieldValue{"add_generation_prompt", *flag}.flag();
}

/// Makes the answer continue the last message if the body or the message requests it.
void read_continuation(const ordered_json& body, Conversation& conversation) {
  constexpr const char* kField = "continue_final_message";
  std::string place;
  if (const ordered_json* flag = find_value(body, kField);
      flag != nullptr && FieldValue{kField, *flag}.flag())
    place = kField;
  const ordered_json& messages = body["messages"];
  for (size_t i = 0; i < messages.size(); ++i) {
    const ordered_json* prefix = find_value(messages[i], "prefix");
    const std::string own = fmt::format("messages.{}.prefix", i);
    if (prefix == nullptr || !FieldValue{own, *prefix}.flag()) continue;
    if (i + 1 < messages.size()) FieldValue{own, *prefix}.refuse("true in the last message alone");
    place = own;
  }
  if (!place.empty()) continue_last_message(place, conversation);
}

}  // namespace

Conversation parse_conversation(const ordered_json& body, GenerationRequest& request) {
  const ordered_json* list = find_value(body, "messages");
  Conversation conversation = in_field("messages", [&] { return read_messages(list, request); });
  read_keywords(body, conversation);
  read_continuation(body, conversation);
  return conversation;
}

void set_effort(const std::string& effort, Conversation& conversation) {
  conversation.keywords["reasoning_effort"] = effort;
  if (effort == "none" && !conversation.keywords.contains("enable_thinking"))
    conversation.keywords["enable_thinking"] = false;
}

std::string role_of_turn(std::string role) {
  return role == "developer" ? "system" : role;
}

GenerationRequest read_request(const ordered_json& body, const GenerationOptions& defaults,
                               RequestFields fields) {
  GenerationRequest request;
  request.options = defaults;
  read_fields(body, "", fields, request);
  complete_request(request);
  if (request.events) {
    throw FieldError("lacuna.events",
                     "lacuna.events has no effect here; OpenAI's chats and completions have it");
  }
  return request;
}

void read_stop_texts(const FieldValue& field, GenerationRequest& request) {
  read_setting_field("stop", field, request);
}

void add_system(std::string_view text, GenerationRequest& request) {
  auto& messages = std::get<Conversation>(request.prompts.front()).messages;
  messages.insert(messages.begin(), ordered_json{{"role", "system"}, {"content", text}});
}

GenerationRequest parse_chat_request(const ordered_json& body, const GenerationOptions& defaults) {
  GenerationRequest request = read_common(body, defaults, chat_fields());
  request.prompts.emplace_back(parse_conversation(body, request));
  request.prompt_field = "messages";
  return request;
}

GenerationRequest parse_completion_request(const ordered_json& body, const GenerationOptions& defaults) {
  const ordered_json* most = find_value(body, "max_tokens");
  const bool scores_only = most != nullptr && *most == 0;
  refuse_tools(body);
  GenerationRequest request = scores_only
                                  ? read_common(without(body, "max_tokens"), defaults, completion_fields())
                                  : read_common(body, defaults, completion_fields());
  request.scores_only = scores_only;
  check_num_answers(request);
  if (scores_only && !(request.echoes && request.wants_logprobs)) {
    throw FieldError("max_tokens", "max_tokens is 0; expected at least 1, or echo with logprobs");
  }
  if (const auto other = request.keys.find("gen_length"); scores_only && other != request.keys.end())
    refuse_contradiction("max_tokens", other->second);
  read_suffix(body, request);
  return request;
}

GenerationRequest parse_infill_request(const ordered_json& all, const GenerationOptions& defaults) {
  refuse_tools(all);
  GenerationRequest length;
  const ordered_json body = without_zero_length(all, length);
  GenerationRequest request = read_common(body, defaults, infill_fields());
  take_zero_length(length, request);
  request.canvas = parse_canvas(body);
  request.fills_cursor = has_cursor(body);
  for (const char* key : {"input_suffix", "input_prefix", "diffusion_seed_canvas", "tokens", "input"})
    if (find_value(body, key) != nullptr) request.prompt_field = key;
  if (const ordered_json* steps = find_value(body, "diffusion_max_steps")) {
    read_setting_as("steps", *steps, "", "diffusion_max_steps", request.options);
    request.keys["steps"] = "diffusion_max_steps";
  }
  if (request.fills_cursor) {
    const int32_t size = hole_tokens(request, kCursorTokens);
    const bool is_lowered = size < request.options.gen_length.value_or(size);
    for (CanvasPart& part : request.canvas) {
      if (std::holds_alternative<Hole>(part))
        part = is_lowered ? Hole{.most = size, .is_open = true} : Hole{size, size};
    }
  }
  request.options.gen_length = AnswerLength();
  if (request.canvas.size() > kMaxCanvasParts) {
    throw FieldError("input", fmt::format("the canvas has {} parts; expected at most {}",
                                          request.canvas.size(), kMaxCanvasParts));
  }
  const auto is_hole = [](const CanvasPart& part) { return std::holds_alternative<Hole>(part); };
  if (std::none_of(request.canvas.begin(), request.canvas.end(), is_hole)) {
    throw FieldError(request.prompt_field,
                     "the canvas has no hole; expected {\"hole\": N}, or null among the tokens");
  }
  if (request.fills_cursor) leave_out_stops(request);
  refuse_stops(request);
  return request;
}

ordered_json openai_error(int status, std::string_view sentence, std::string_view field,
                          std::string_view /*request_id*/) {
  return error_json(status, sentence, field);
}

namespace {

template <AnswerStyle kStyle>
std::unique_ptr<ReplyFormat> make_openai_format(AnswerHead head) {
  return std::make_unique<OpenAiFormat>(kStyle, std::move(head));
}

}  // namespace

const Dialect kOpenAiChat{chat_fields,        true,
                          kAnswerFormatKeys,  kOpenAiObjects,
                          parse_chat_request, make_openai_format<AnswerStyle::kChat>,
                          openai_error,       ToolFormat::kChat};
const Dialect kOpenAiCompletions{completion_fields,
                                 true,
                                 kAnswerFormatKeys,
                                 kOpenAiObjects,
                                 parse_completion_request,
                                 make_openai_format<AnswerStyle::kText>,
                                 openai_error};
const Dialect kLacunaInfill{infill_fields,        true,
                            kAnswerFormatKeys,    kOpenAiObjects,
                            parse_infill_request, make_openai_format<AnswerStyle::kInfill>,
                            openai_error};

}  // namespace lacuna
