#include "server/api_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "options/names.h"
#include "server/answer_format.h"
#include "server/api_error.h"
#include "server/dialect.h"
#include "server/infill_request.h"
#include "server/openai_format.h"
#include "server/request_fields.h"
#include "server/settings.h"
#include "server/tool_request.h"

namespace lacuna {
namespace {

using nlohmann::json;

bool read_flag(const json& object, std::string_view key) {
  const json* value = find_value(object, key);
  return value != nullptr && FieldValue{std::string(key), *value}.flag();
}

int64_t integer_in(const json& value, std::string_view place, int64_t least, int64_t most) {
  return FieldValue{std::string(place), value}.integer(least, most);
}

/// Reads a setting and remembers the key that it came by.
void take_setting(std::string_view key, const json& value, std::string_view place,
                  GenerationRequest& request) {
  expect_setting(key, value, place, request.options);
  if (value.is_null()) return;
  request.keys[with_underscores(setting_named(key))] = fmt::format("{}{}", place, key);
}

/// Whether a setting was sent at the top level, not in the request's own object.
bool is_sent_outside(const GenerationRequest& request, std::string_view setting) {
  const auto key = request.keys.find(setting);
  return key != request.keys.end() && !key->second.starts_with("lacuna.");
}

// Fields that ask for what no method here does, unless they ask for nothing.

void read_max_completion_tokens(const FieldValue& field, GenerationRequest& request) {
  read_setting_field(setting::kGenLength, field, request);
}

/// `threshold` as lmdeploy, SGLang and mlx-vlm take it: every position that is surer is written.
void read_threshold(const FieldValue& field, GenerationRequest& request) {
  const json& value = field.value;
  if (!value.is_number() || value <= 0 || value > 1) field.refuse("a number in (0, 1]");
  request.options.unmask = "threshold=" + value.dump();
}

/// logprobs as chats have it, true or false with top_logprobs, or as completions have it, a number.
void read_logprobs(const FieldValue& field, GenerationRequest& request) {
  if (field.value.is_boolean()) {
    request.wants_logprobs = field.flag();
    return;
  }
  request.wants_logprobs = true;
  request.num_alternatives = static_cast<int32_t>(field.integer(0, kMaxAlternatives));
  if (request.num_alternatives > 0) request.keys["alternatives"] = field.place;
}

void read_top_logprobs(const FieldValue& field, GenerationRequest& request) {
  request.num_alternatives = static_cast<int32_t>(field.integer(0, kMaxAlternatives));
  if (request.num_alternatives == 0) return;
  if (!request.wants_logprobs) field.refuse("logprobs: true with it");
  request.keys["alternatives"] = field.place;
}

void read_stream_options(const FieldValue& field, GenerationRequest& request) {
  request.include_usage = read_flag(field.object(), "include_usage");
}

void read_num_choices(const FieldValue& field, GenerationRequest& request) {
  request.num_choices = static_cast<int32_t>(field.integer(1, kMaxRequestChoices));
}

void read_echo(const FieldValue& field, GenerationRequest& request) {
  request.echoes = field.flag();
}

// Members of "lacuna" that are not settings.

void read_events(const FieldValue& field, GenerationRequest& request) {
  request.events = field.flag();
}

void read_step_map(const FieldValue& field, GenerationRequest& request) {
  request.wants_step_map = field.flag();
}

void read_guide(const FieldValue& field, GenerationRequest& request) {
  request.uses_guide = field.flag();
  if (request.uses_guide) return;
  request.options.guide_match.reset();  // not even by default
  request.options.guide_fallback.reset();
  request.options.guide_block.reset();
}

void read_given_tokens(const FieldValue& field, GenerationRequest& request) {
  request.given_tokens = static_cast<int32_t>(field.integer(1, std::numeric_limits<int32_t>::max()));
}

void read_likelihood_draws(const FieldValue& field, GenerationRequest& request) {
  request.likelihood_draws = static_cast<int32_t>(field.integer(1, kMaxLikelihoodDraws));
}

constexpr RequestField kOwnMembers[] = {
    {"events", R"({"type": "boolean"})", "each step's changes (OpenAI's endpoints)", read_events},
    {"step_map", R"({"type": "boolean"})", "the pass that committed each token", read_step_map},
    {"guide", R"({"type": "boolean"})", "the server's guide verifies drafts", read_guide},
    {"given_tokens", R"({"type": "integer", "minimum": 1})", "tokens of a scored prompt that are given",
     read_given_tokens},
    {"likelihood_draws", R"({"type": "integer", "minimum": 1})", "passes of a likelihood bound",
     read_likelihood_draws},
};

void read_own_object(const FieldValue& field, GenerationRequest& request) {
  if (!field.value.is_object()) field.refuse("an object of settings");
  read_fields(field.value, "lacuna.", kOwnMembers, request);
  for (const auto& [key, value] : field.value.items()) {
    const bool is_read =
        std::any_of(std::begin(kOwnMembers), std::end(kOwnMembers),
                    [&name = key](const RequestField& member) { return member.name == name; });
    if (!is_read) take_setting(key, value, "lacuna.", request);
  }
}

constexpr RequestField kOwnField[] = {
    {"lacuna", R"({"type": "object"})",
     "settings by the names of lacuna run, and what clients of this server ask for", read_own_object},
};

// Fields of chats, completions and infills.
constexpr RequestField kCommonFields[] = {
    {"model", R"({"type": "string"})", "a model of this server"},
    {"functions", R"({"type": "array"})", "empty; tools replace it"},
    {"function_call", R"({})", "empty; tool_choice replaces it"},
    {"grammar", R"({"type": "string"})", "a grammar in llama.cpp's notation"},
    {"guided_grammar", R"({"type": "string"})", "the same"},
    {"ebnf", R"({"type": "string"})", "the same"},
    {"max_completion_tokens", R"({"type": "integer"})", "positions of the answer",
     read_max_completion_tokens},
    {"threshold", R"({"type": "number"})", "unmask every position that is surer", read_threshold},
    {"confidence_threshold", R"({"type": "number"})", "the same", read_threshold},
    {"dllm_confidence_threshold", R"({"type": "number"})", "the same", read_threshold},
    {"stream", R"({"type": "boolean"})", "server-sent events in the place of one object", read_stream},
    {"stream_options", R"({"type": "object"})", "include_usage: a last chunk with usage and timings",
     read_stream_options},
    {"n", R"({"type": "integer", "minimum": 1, "maximum": 128})", "choices", read_num_choices},
    {"response_format", R"({"type": "object"})", "type text, json_object or json_schema"},
    {"structured_outputs", R"({"type": "object"})", "json, regex, choice, grammar or json_object"},
    {"guided_json", R"({})", "a JSON schema"},
    {"guided_regex", R"({"type": "string"})", "a regular expression"},
    {"guided_choice", R"({"type": "array", "items": {"type": "string"}})",
     "texts, one of which is the answer"},
    {"json_schema", R"({})", "a JSON schema"},
    {"regex", R"({"type": "string"})", "a regular expression"},
    {"format", R"({})", "json or a JSON schema"},
};

// Hints: fields that clients send by habit and no answer here depends on.
constexpr std::string_view kAnything = "{}";
constexpr RequestField kHintFields[] = {
    {"user", kAnything, "left out", leave_out_field},
    {"metadata", kAnything, "left out", leave_out_field},
    {"store", kAnything, "left out: nothing is stored", leave_out_field},
    {"service_tier", kAnything, "left out", leave_out_field},
    {"safety_identifier", kAnything, "left out", leave_out_field},
    {"prompt_cache_key", kAnything, "left out: prefixes are found by their tokens", leave_out_field},
    {"prompt_cache_retention", kAnything, "left out", leave_out_field},
    {"prediction", kAnything, "left out", leave_out_field},
    {"verbosity", kAnything, "left out", leave_out_field},
    {"modalities", kAnything, "left out: answers are text", leave_out_field},
    {"web_search_options", kAnything, "left out: the server searches nothing", leave_out_field},
    {"reasoning_effort", kAnything, "left out", leave_out_field},
    {"reasoning", kAnything, "left out", leave_out_field},
    {"reasoning_format", kAnything, "left out", leave_out_field},
    {"include_reasoning", kAnything, "left out", leave_out_field},
    {"thinking", kAnything, "left out", leave_out_field},
    {"keep_alive", kAnything, "left out; --unload-after says it", leave_out_field},
    {"cache_prompt", kAnything, "left out: prompts are always kept", leave_out_field},
    {"id_slot", kAnything, "left out", leave_out_field},
    {"samplers", kAnything, "left out", leave_out_field},
    {"n_keep", kAnything, "left out", leave_out_field},
    {"n_indent", kAnything, "left out", leave_out_field},
    {"t_max_predict_ms", kAnything, "left out; --request-timeout says it", leave_out_field},
    {"repeat_last_n", kAnything, "left out: repeat_penalty is of the whole text", leave_out_field},
    {"min_keep", kAnything, "left out", leave_out_field},
    {"return_progress", kAnything, "left out", leave_out_field},
    {"timings_per_token", kAnything, "left out", leave_out_field},
    {"post_sampling_probs", kAnything, "left out", leave_out_field},
    {"response_fields", kAnything, "left out", leave_out_field},
    {"priority", kAnything, "left out", leave_out_field},
    {"skip_special_tokens", kAnything, "left out", leave_out_field},
    {"spaces_between_special_tokens", kAnything, "left out", leave_out_field},
};

// Read after "lacuna", over which they have precedence.
constexpr RequestField kLastFields[] = {
    {"stop", R"({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})",
     "up to 16 texts that end the answer", read_stop_texts},
    {"logprobs", R"({"type": ["boolean", "integer"]})",
     "logarithms of confidences; a number lists alternatives", read_logprobs},
    {"top_logprobs", R"({"type": "integer", "minimum": 0, "maximum": 20})",
     "tokens that are listed for each position, with logprobs", read_top_logprobs},
};

/// Completes a request once its fields are read.
void complete_request(GenerationRequest& request) {
  GenerationOptions& options = request.options;
  // Every client sends filters, which change nothing where the best token is taken.
  if (!(options.temperature.value_or(0) > 0)) {
    if (is_sent_outside(request, "top_p")) options.top_p.reset();
    if (is_sent_outside(request, "top_k")) options.top_k.reset();
  }
  if (request.num_candidates > 1 && request.num_choices > 1 && request.num_candidates != request.num_choices)
    throw FieldError("best_of", fmt::format("best_of is {} and n is {}; expected n 1, or the same number",
                                            request.num_candidates, request.num_choices));
  if (request.num_choices > 1) request.num_candidates = 1;
  if (options.guide_match || options.guide_fallback || options.guide_block) request.uses_guide = true;
  if (!is_sent_outside(request, "stop")) request.stop = std::move(options.stop);
  options.stop.clear();
  std::erase(request.stop, std::string());
  const auto is_long = [](const std::string& stop) { return stop.size() > kMaxStopBytes; };
  if (request.stop.size() > kMaxStops || std::any_of(request.stop.begin(), request.stop.end(), is_long)) {
    const std::string key = request.name_of("stop").value_or("stop");
    throw FieldError(key, fmt::format("{} holds too much; expected at most {} texts of at most {} bytes", key,
                                      kMaxStops, kMaxStopBytes));
  }
}

///   skipped  a key that the caller has read
GenerationRequest read_common(const json& body, const GenerationOptions& defaults, RequestFields fields,
                              std::string_view skipped = "") {
  if (!body.is_object()) throw InputError("the body is not a JSON object");
  GenerationRequest request;
  request.options = defaults;
  for (const auto& [key, value] : body.items()) {
    // llama.cpp's clients ask for any seed, or for any length, with -1.
    const bool is_any = value.is_number_integer() && value == -1;
    if (!is_any && key != skipped && is_common_name(key)) take_setting(key, value, "", request);
  }
  read_fields(body, "", fields, request);
  complete_request(request);
  refuse_legacy_functions(body);
  return request;
}

/// Where there is no conversation to describe them in.
void refuse_tools(const json& body) {
  const json* tools = body.is_object() ? find_value(body, "tools") : nullptr;
  if (tools != nullptr && !tools->empty()) {
    throw FieldError("tools",
                     "tools has no effect here; chats take tools, such as POST /v1/chat/completions");
  }
}

Prompt read_prompt(const json& prompt) {
  if (prompt.is_string()) return prompt.get<std::string>();
  return parse_tokens(prompt, "prompt");
}

void read_prompts(const FieldValue& field, GenerationRequest& request) {
  const json& prompt = field.value;
  const bool is_list = prompt.is_array() && !prompt.empty() && !prompt.front().is_number();
  if (!is_list) {
    request.prompts.push_back(read_prompt(prompt));
    return;
  }
  for (const json& each : prompt) request.prompts.push_back(read_prompt(each));
}

/// Nothing ends a text whose end is given.
void refuse_stops(const GenerationRequest& request) {
  if (request.stop.empty()) return;
  const std::string key = request.name_of("stop").value_or("stop");
  throw FieldError(key, key + " has no effect here: an infill fills its holes");
}

}  // namespace

void read_suffix(const json& body, GenerationRequest& request) {
  const json* suffix = find_value(body, "suffix");
  if (suffix == nullptr || *suffix == json("")) return;
  std::string after = FieldValue{"suffix", *suffix}.text();
  const auto* prompt =
      request.prompts.size() == 1 ? std::get_if<std::string>(&request.prompts.front()) : nullptr;
  if (prompt == nullptr)
    throw FieldError("suffix", "suffix needs a prompt that is one text, which it follows");
  if (request.wants_logprobs || request.echoes) {
    throw FieldError("suffix", "suffix: echo and logprobs are of what continues a prompt; expected neither");
  }
  refuse_stops(request);
  const int32_t most = request.options.gen_length.value_or(kOpenHoleMost);
  if (most < 1 || most > kMaxHoleTokens) {
    const std::string key = request.name_of("gen_length").value_or("max_tokens");
    throw FieldError(key, fmt::format("{} is {}; expected 1 to {} with a suffix", key, most, kMaxHoleTokens));
  }
  request.options.gen_length = AnswerLength();
  if (!prompt->empty()) request.canvas.emplace_back(*prompt);
  request.canvas.emplace_back(Hole{.most = most, .is_open = true});
  request.canvas.emplace_back(std::move(after));
  request.prompts.clear();
  request.inserts = true;
}

json without_zero_length(const json& body, GenerationRequest& request) {
  const json* length = body.is_object() ? find_value(body, "n_predict") : nullptr;
  if (length == nullptr || (*length != 0 && *length != -2)) return body;
  if (*length == 0) request.answers_nothing = "length";
  json rest = body;
  rest.erase("n_predict");
  return rest;
}

namespace {

constexpr RequestField kChatFields[] = {
    {"messages", R"({"type": "array", "items": {"type": "object"}})", "a list of at least one message"},
    {"tools", R"({"type": "array", "items": {"type": "object"}})", "functions that the answer may call"},
    {"tool_choice", R"({"type": ["string", "object"]})", "none, auto, required or one function"},
    {"parallel_tool_calls", R"({"type": "boolean"})", "whether an answer may have several calls"},
    {"chat_template_kwargs", R"({"type": "object"})",
     "variables of the chat template, such as enable_thinking"},
    {"enable_thinking", R"({"type": "boolean"})", "the same as in chat_template_kwargs"},
    {"reasoning_effort", R"({"type": "string"})",
     "the same; without effect on templates that do not read it"},
    {"documents", R"({"type": "array", "items": {"type": "object"}})",
     "documents for templates that show some"},
    {"add_generation_prompt", R"({"type": "boolean"})",
     "whether the prompt ends with the beginning of an answer"},
};

constexpr RequestField kPromptFields[] = {
    {"prompt", R"({})", "text or token ids, or a list of prompts", read_prompts, true},
    {"echo", R"({"type": "boolean"})", "the prompt before the answer", read_echo},
    {"suffix", R"({"type": "string"})", "text that follows what is filled in"},
};

constexpr RequestField kInfillFields[] = {
    {"input", R"({"type": "array"})", "texts, holes and tokens"},
    {"tokens", R"({"type": "array"})", "token ids, null for a hole"},
    {"mask", R"({"type": "array"})", "positions of tokens that are holes"},
    {"input_prefix", R"({"type": "string"})", "text before the hole"},
    {"input_suffix", R"({"type": "string"})", "text after it"},
    {"prompt", R"({"type": "string"})", "the line before the hole, between input_prefix and it"},
    {"input_extra", R"({"type": "array"})", "left out: other files", leave_out_field},
    {"diffusion_seed_canvas", R"({"type": "array"})", "the same as tokens"},
    {"diffusion_pinned", R"({"type": "array"})", "positions of tokens that are not holes"},
    {"diffusion_max_steps", R"({"type": "integer"})", "steps"},
};

RequestFields chat_fields() {
  static const std::vector<RequestField> all =
      join({kChatFields, kCommonFields, sampling_fields(), kHintFields, kOwnField, kLastFields});
  return all;
}

RequestFields completion_fields() {
  static const std::vector<RequestField> all =
      join({kPromptFields, kCommonFields, sampling_fields(), kHintFields, kOwnField, kLastFields});
  return all;
}

RequestFields infill_fields() {
  static const std::vector<RequestField> all =
      join({kInfillFields, kCommonFields, sampling_fields(), kHintFields, kOwnField, kLastFields});
  return all;
}

}  // namespace

std::optional<std::string> GenerationRequest::name_of(std::string_view field) const {
  if (field == "prompt" || field == "answer") return prompt_field;
  const auto sent = keys.find(field);
  return sent != keys.end() ? sent->second : request_name(field);
}

json parse_body(std::string_view body) {
  // Bounds nesting and the number of values, and refuses a key that comes twice.
  return parse_json(body, "the body", kMaxBodyValues);
}

std::vector<TokenId> parse_tokens(const json& list, std::string_view place) {
  if (!list.is_array()) FieldValue{std::string(place), list}.refuse("text or a list of token ids");
  std::vector<TokenId> tokens;
  for (const json& token : list) {
    tokens.push_back(static_cast<TokenId>(integer_in(token, place, 0, std::numeric_limits<TokenId>::max())));
  }
  return tokens;
}

namespace {

/// A content that is text, or a list of texts.
nlohmann::ordered_json read_content(const FieldValue& content) {
  std::string text = text_of_content(content, kTextPart);
  if (content.value.is_string()) return text;
  nlohmann::ordered_json parts = nlohmann::ordered_json::array();
  for (const json& part : content.value) parts.push_back({{"type", "text"}, {"text", part["text"]}});
  return parts;
}

Conversation read_messages(const json* list) {
  if (list == nullptr || !list->is_array() || list->empty()) {
    throw InputError("messages is missing; expected a list of at least one message");
  }
  Conversation conversation;
  ChatHistory history;
  for (size_t i = 0; i < list->size(); ++i) {
    const json& message = (*list)[i];
    const json* role = message.is_object() ? find_value(message, "role") : nullptr;
    if (role == nullptr || !role->is_string()) {
      throw InputError("messages holds {}; expected \"role\" and \"content\"", shown(message));
    }
    const std::string place = fmt::format("messages.{}", i);
    constexpr size_t kMaxFields = 256;  // each is looked up in a list of all
    if (message.size() > kMaxFields)
      throw InputError("{} has {} fields; expected at most {}", place, message.size(), kMaxFields);
    const json* part = find_value(message, "content");
    const nlohmann::ordered_json content =
        part == nullptr ? nlohmann::ordered_json("") : read_content({place + ".content", *part});
    if (*role == "tool") {
      history.add_message(message, place, content, conversation);
      continue;
    }
    nlohmann::ordered_json& added = conversation.add(role_of_turn(role->get<std::string>()), "");
    added["content"] = content;
    if (*role == "assistant") history.add_calls_of(message, place, added);
    for (const auto& [key, value] : message.items()) {  // what a template may read, such as reasoning_content
      if (!added.contains(key) && key != "tool_calls" && !value.is_null()) added[key] = value;
    }
  }
  return conversation;
}

void read_keywords(const json& body, Conversation& conversation) {
  constexpr const char* kKeywords = "chat_template_kwargs";
  if (const json* value = find_value(body, kKeywords))
    conversation.keywords = FieldValue{kKeywords, *value}.object();
  in_field(kKeywords, [&] { check_template_keywords(conversation.keywords); });
  for (const char* key : {"enable_thinking", "reasoning_effort"}) {
    const json* value = find_value(body, key);
    if (value != nullptr && !conversation.keywords.contains(key)) conversation.keywords[key] = *value;
  }
  if (const json* documents = find_value(body, "documents"))
    conversation.documents = FieldValue{"documents", *documents}.list();
  if (const json* flag = find_value(body, "add_generation_prompt"))
    conversation.add_generation_prompt = FieldValue{"add_generation_prompt", *flag}.flag();
}

}  // namespace

Conversation parse_conversation(const json& body) {
  const json* list = body.is_object() ? find_value(body, "messages") : nullptr;
  Conversation conversation = in_field("messages", [&] { return read_messages(list); });
  read_keywords(body, conversation);
  return conversation;
}

RequestFields own_fields() {
  return kOwnField;
}

RequestFields own_members() {
  return kOwnMembers;
}

RequestFields hint_fields() {
  return kHintFields;
}

std::string role_of_turn(std::string role) {
  return role == "developer" ? "system" : role;
}

GenerationRequest read_request(const json& body, const GenerationOptions& defaults, RequestFields fields) {
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

void read_stream(const FieldValue& field, GenerationRequest& request) {
  request.stream = field.flag();
}

void read_stop_texts(const FieldValue& field, GenerationRequest& request) {
  GenerationOptions given;
  read_setting_as("stop", field.value, "", field.place, given);
  request.stop = std::move(given.stop);
  request.keys["stop"] = field.place;
}

void add_system(std::string_view text, GenerationRequest& request) {
  auto& messages = std::get<Conversation>(request.prompts.front()).messages;
  messages.insert(messages.begin(), nlohmann::ordered_json{{"role", "system"}, {"content", text}});
}

std::string text_of_content(const FieldValue& content, std::span<const std::string_view> types) {
  if (content.value.is_string()) return content.text();
  if (!content.value.is_array()) content.refuse("text");
  std::string text;
  for (size_t i = 0; i < content.value.size(); ++i) {
    const FieldValue part{fmt::format("{}.{}", content.place, i), content.value[i]};
    const json* type = part.value.is_object() ? find_value(part.value, "type") : nullptr;
    const json* piece = part.value.is_object() ? find_value(part.value, "text") : nullptr;
    const bool is_text = type != nullptr && type->is_string() && piece != nullptr && piece->is_string() &&
                         std::find(types.begin(), types.end(), type->get<std::string>()) != types.end();
    if (!is_text) part.refuse(fmt::format("{{\"type\": \"{}\", \"text\": ...}}", types.front()));
    text += piece->get<std::string>();
  }
  return text;
}

GenerationRequest parse_chat_request(const json& body, const GenerationOptions& defaults) {
  GenerationRequest request = read_common(body, defaults, chat_fields());
  request.prompts.emplace_back(parse_conversation(body));
  request.prompt_field = "messages";
  return request;
}

GenerationRequest parse_completion_request(const json& body, const GenerationOptions& defaults) {
  const json* most = body.is_object() ? find_value(body, "max_tokens") : nullptr;
  const bool scores_only = most != nullptr && *most == 0;
  refuse_tools(body);
  GenerationRequest request =
      read_common(body, defaults, completion_fields(), scores_only ? "max_tokens" : "");
  request.scores_only = scores_only;
  if (request.prompts.size() * static_cast<size_t>(request.num_candidates) > size_t{kMaxRequestChoices})
    throw FieldError("best_of",
                     fmt::format("best_of is {} for {} prompts; expected at most {} answers in all",
                                 request.num_candidates, request.prompts.size(), kMaxRequestChoices));
  if (request.prompts.size() * static_cast<size_t>(request.num_choices) > size_t{kMaxRequestChoices}) {
    throw FieldError("n", fmt::format("{} prompts with n = {} make more than {} choices",
                                      request.prompts.size(), request.num_choices, kMaxRequestChoices));
  }
  if (scores_only && !(request.echoes && request.wants_logprobs)) {
    throw FieldError("max_tokens", "max_tokens is 0; expected at least 1, or echo with logprobs");
  }
  read_suffix(body, request);
  return request;
}

GenerationRequest parse_infill_request(const json& all, const GenerationOptions& defaults) {
  refuse_tools(all);
  GenerationRequest length;
  const json body = without_zero_length(all, length);
  GenerationRequest request = read_common(body, defaults, infill_fields());
  request.answers_nothing = std::move(length.answers_nothing);
  request.canvas = parse_canvas(body);
  request.fills_cursor = has_cursor(body);
  for (const char* key : {"input_suffix", "input_prefix", "diffusion_seed_canvas", "tokens", "input"})
    if (find_value(body, key) != nullptr) request.prompt_field = key;
  if (const json* steps = find_value(body, "diffusion_max_steps")) {
    read_setting_as("steps", *steps, "", "diffusion_max_steps", request.options);
    request.keys["steps"] = "diffusion_max_steps";
  }
  if (request.fills_cursor) {
    const int32_t size = request.options.gen_length.value_or(kCursorTokens);
    if (size < 1 || size > kMaxHoleTokens) {
      const std::string key = request.name_of("gen_length").value_or("n_predict");
      throw FieldError(key, fmt::format("{} is {}; expected 1 to {}", key, size, kMaxHoleTokens));
    }
    for (CanvasPart& part : request.canvas) {
      if (std::holds_alternative<Hole>(part)) part = Hole{size, size};
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
  refuse_stops(request);
  return request;
}

nlohmann::ordered_json openai_error(int status, std::string_view sentence, std::string_view field,
                                    std::string_view /*request_id*/) {
  return error_json(status, sentence, field);
}

namespace {

template <AnswerStyle kStyle>
std::unique_ptr<ReplyFormat> make_openai_format(AnswerHead head) {
  return std::make_unique<OpenAiFormat>(kStyle, std::move(head));
}

}  // namespace

const Dialect kOpenAiChat{chat_fields,
                          true,
                          kAnswerFormatKeys,
                          parse_chat_request,
                          make_openai_format<AnswerStyle::kChat>,
                          openai_error,
                          ToolFormat::kChat};
const Dialect kOpenAiCompletions{completion_fields,
                                 true,
                                 kAnswerFormatKeys,
                                 parse_completion_request,
                                 make_openai_format<AnswerStyle::kText>,
                                 openai_error};
const Dialect kLacunaInfill{
    infill_fields, true, kAnswerFormatKeys, parse_infill_request, make_openai_format<AnswerStyle::kInfill>,
    openai_error};

}  // namespace lacuna
