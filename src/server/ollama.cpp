// Ollama's POST /api/chat and /api/generate, which stream JSON lines by default.
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <utility>

#include "base/json.h"
#include "server/dialect.h"
#include "server/message_parts.h"
#include "server/prompts.h"
#include "server/utc_time.h"
#include "tokenizer/unicode.h"

namespace lacuna {
namespace ollama {
namespace {

using nlohmann::ordered_json;

// The members of "options".
constexpr RequestField kOptions[] = {
    {"num_predict", kInteger, "the most positions of the answer; 0, -1 or -2: the default",
     [](const FieldValue& field, GenerationRequest& request) {
       if (field.value != 0) read_open_limit(field, request);
     }},
    {"temperature", kNumber, "0: the likeliest token", as_setting<setting::kTemperature>},
    {"top_p", kNumber, "without effect at temperature 0", as_setting<setting::kTopP>},
    {"top_k", kInteger, "without effect at temperature 0", as_setting<setting::kTopK>},
    {"seed", kInteger, "of all sampling", read_seed},
    {"stop", kTextOrTexts, "texts that end the answer", read_stop_texts},
};

// How Ollama runs a model, and settings of samplings that are refused.
constexpr HintNames kRunOptions[] = {
    {"num_ctx", "left out: the model's own"},
    {"num_keep num_batch num_gpu main_gpu num_thread low_vram f16_kv vocab_only logits_all embedding_only "
     "use_mmap use_mlock numa",
     "left out"},
    {"penalize_newline repeat_last_n", "left out: repeat_penalty is of the whole text"},
    {"mirostat_tau mirostat_eta", "left out: there is no mirostat"},
};

void read_options(const FieldValue& field, GenerationRequest& request) {
  static const std::vector<RequestField> all = join({kOptions, fields_of(kRunOptions), sampling_fields()});
  read_fields(field.object(), field.place + ".", all, request);
  note_unknown_fields(field.value, field.place + ".", all, nullptr, request);
}

bool has_text(const FieldValue& item, std::string_view key) {
  const ordered_json* value = find_value(item.value, key);
  return value != nullptr && *value != "";
}

/// Reads the calls of an assistant's message. Arguments are objects; ids are optional.
void read_calls(const FieldValue& item, ToolHistory& history, ordered_json& message) {
  const FieldValue list = item.at("tool_calls");
  if (list.list().size() > kMaxCalls) list.refuse(fmt::format("at most {} calls", kMaxCalls));
  std::vector<ToolCall> calls;
  for (size_t i = 0; i < list.value.size(); ++i) {
    const FieldValue call{fmt::format("{}.{}", list.place, i), list.value[i]};
    if (find_value(call.object(), "function") == nullptr) call.refuse("\"function\"");
    const FieldValue function = call.at("function");
    if (find_value(function.object(), "name") == nullptr) function.refuse("\"name\" and \"arguments\"");
    const FieldValue name = function.at("name");
    std::string arguments;  // an object, or its JSON text from OpenAI's clients
    if (const ordered_json* sent = find_value(function.value, "arguments"))
      arguments = sent->is_string() ? sent->get<std::string>() : function.at("arguments").object().dump();
    std::optional<std::string> id;
    if (has_text(call, "id")) id = call.at("id").text();
    calls.push_back(history.call(id, call.place + ".id", name.text(), name.place, arguments,
                                 function.place + ".arguments"));
  }
  if (!calls.empty()) add_calls(calls, message);
}

void read_messages(const FieldValue& field, GenerationRequest& request) {
  if (!field.value.is_array() || field.value.empty()) field.refuse("a list of at least one message");
  Conversation conversation;
  ToolHistory history;
  for (size_t i = 0; i < field.value.size(); ++i) {
    const FieldValue item{fmt::format("{}.{}", field.place, i), field.value[i]};
    if (find_value(item.object(), "images") != nullptr) refuse_field(item.at("images"), request);
    if (find_value(item.value, "role") == nullptr) item.refuse("\"role\" and \"content\"");
    const std::string role = role_of_turn(item.at("role").text());
    const ordered_json* part = find_value(item.value, "content");
    const std::string content = part == nullptr ? "" : text_of_content(item.at("content"), kTextPart);
    if (role == "tool") {
      const std::string id = has_text(item, "tool_call_id") ? item.at("tool_call_id").text() : "";
      if (history.has_call(id)) {
        history.add_result(id, "", content, conversation);
      } else {
        history.add_result(content, conversation,
                           has_text(item, "tool_name") ? item.at("tool_name").text() : "");
      }
      continue;
    }
    ordered_json& message = conversation.add(role, content);
    if (role == "assistant" && find_value(item.value, "tool_calls") != nullptr)
      read_calls(item, history, message);
  }
  // A final assistant text begins the answer, as in most of Ollama's templates.
  const ordered_json& last = conversation.messages.back();
  if (last["role"] == "assistant" && !last.contains("tool_calls") && conversation.messages.size() > 1)
    continue_last_message(fmt::format("{}.{}", field.place, field.value.size() - 1), conversation);
  request.prompts.emplace_back(std::move(conversation));
  request.prompt_field = field.place;
}

void read_logprobs(const FieldValue& field, GenerationRequest& request) {
  if (field.flag()) request.wants_logprobs = true;
}

void read_top_logprobs(const FieldValue& field, GenerationRequest& request) {
  set_alternatives(field.integer(0, kMaxAlternatives), field, request);
}

void read_prompt(const FieldValue& field, GenerationRequest& request) {
  request.prompts.emplace_back(Conversation(std::vector<Message>{{"user", field.text()}}));
}

/// Puts the system message before the prompt, which must have been read.
void read_system(const FieldValue& field, GenerationRequest& request) {
  if (const std::string text = field.text(); !text.empty()) add_system(text, request);
}

/// Uses the prompt as plain text, without the chat template.
void read_raw(const FieldValue& field, GenerationRequest& request) {
  if (!field.flag()) return;
  const ordered_json& messages = std::get<Conversation>(request.prompts.front()).messages;
  if (messages.size() > 1) field.refuse("false together with system");
  request.prompts.front() = content_text(messages.front());
}

/// Must be read after the messages or the prompt.
void read_think(const FieldValue& field, GenerationRequest& request) {
  leave_out_field(field, request);
  if (field.value != ordered_json(false) || request.prompts.empty()) return;
  auto* conversation = std::get_if<Conversation>(&request.prompts.front());
  if (conversation != nullptr) conversation->keywords["enable_thinking"] = false;
}

constexpr RequestField kShared[] = {
    {"model", kString, "a model of this server"},
    {"options", kObject, "num_predict, temperature, top_p, top_k, seed, stop", read_options},
    {"format", kAnyValue, "json, or a JSON schema that the answer is valid against"},
    {"truncate", kBoolean, "left out: no prompt is cut", leave_out_field},
    {"shift", kBoolean, "left out: no prompt is cut", leave_out_field},
    {"stream", kBoolean, "lines of JSON (default true)", as_flag<&GenerationRequest::stream>},
    {"think", kAnyValue, "false: the chat template's enable_thinking", read_think},
    {"logprobs", kBoolean, "the logprob of every token", read_logprobs},
    {"top_logprobs", kAlternativeCount, "tokens that are listed for each position, together with logprobs",
     read_top_logprobs},
};

constexpr RequestField kChat[] = {
    {"messages", kObjects, "messages with role and content", read_messages},
    {"tools", kObjects, "functions that the answer may call"},
};

constexpr RequestField kGenerate[] = {
    {"prompt", kString, "the user's text; none: the model is loaded", read_prompt},
    {"system", kString, "a system message before it", read_system},
    {"raw", kBoolean, "the prompt without the chat template", read_raw},
    {"suffix", kString, "text that follows what is filled in"},
    {"template", kString, "refused", refuse_field},
    {"context", kList, "refused", refuse_field},
    {"images", kList, "refused", refuse_field},
    {"width", kInteger, "left out: answers are text", leave_out_field},
    {"height", kInteger, "left out: answers are text", leave_out_field},
};

RequestFields chat_fields() {
  static const std::vector<RequestField> all = join({kChat, kShared, hint_fields(), own_fields()});
  return all;
}

RequestFields generate_fields() {
  static const std::vector<RequestField> all = join({kGenerate, kShared, hint_fields(), own_fields()});
  return all;
}

GenerationRequest parse(const ordered_json& body, const GenerationOptions& defaults, RequestFields fields) {
  GenerationRequest request = read_request(body, defaults, fields);
  if (find_value(body, "stream") == nullptr) request.stream = true;
  return request;
}

/// Whether a request without a prompt asks to load the model, or to unload it (keep_alive 0).
bool asks_to_load(const ordered_json& body, const char* prompt) {
  const ordered_json* value = find_value(body, prompt);
  return body.is_object() && (value == nullptr || (value->empty() || *value == ""));
}

GenerationRequest load_request(ordered_json body, const char* prompt, const GenerationOptions& defaults,
                               RequestFields fields) {
  const ordered_json* keep = find_value(body, "keep_alive");
  const bool unloads = keep != nullptr && (*keep == 0 || *keep == "0" || *keep == "0s");
  for (const char* key : {prompt, "system", "raw", "tools"}) body.erase(key);
  GenerationRequest request = read_request(body, defaults, fields);
  if (unloads) leave_out("keep_alive", request);
  request.stream = false;
  request.answers_nothing = unloads ? "unload" : "load";
  return request;
}

GenerationRequest parse_chat(const ordered_json& body, const GenerationOptions& defaults) {
  if (asks_to_load(body, "messages")) return load_request(body, "messages", defaults, chat_fields());
  return parse(body, defaults, chat_fields());
}

GenerationRequest parse_generate(const ordered_json& body, const GenerationOptions& defaults) {
  if (asks_to_load(body, "prompt")) return load_request(body, "prompt", defaults, generate_fields());
  GenerationRequest request = parse(body, defaults, generate_fields());
  const ordered_json* suffix = find_value(body, "suffix");
  if (suffix == nullptr || *suffix == "") return request;
  if (const auto* conversation = std::get_if<Conversation>(&request.prompts.front())) {
    if (conversation->messages.size() > 1)
      throw FieldError("system", "system has no effect next to a suffix; leave it out");
    request.prompts.front() = content_text(conversation->messages.front());
  }
  read_suffix(body, request);
  return request;
}

int64_t nanoseconds(double milliseconds) {
  return static_cast<int64_t>(milliseconds * 1e6);
}

class LinesFormat final : public ReplyFormat {
 public:
  LinesFormat(AnswerHead head, bool is_chat) : ReplyFormat(std::move(head)), is_chat_(is_chat) {}

  std::string_view stream_type() const override { return "application/x-ndjson"; }

  ordered_json whole(AnswerChoices choices, const AnswerUsage& usage) override {
    const AnswerChoice& choice = *choices.front();
    ordered_json reply = end(choice, choice.tools ? choice.tools->content() : choice.answer.text, usage);
    if (choice.tools && !choice.tools->calls().empty())
      add_calls(*choice.tools, choice.tools->calls().size(), reply);
    add_logprobs(choice.answer, reply);
    reply["lacuna"] = own_part(choice, request());
    return reply;
  }

  std::string part(const AnswerPart& part) override {
    if (!part.choice.tools) {
      return part.piece.text.empty() && !has_logprobs(part.piece) ? std::string() : line(part.piece);
    }
    Piece shown{"", part.piece.tokens};
    size_t num_begun = num_sent_calls_;
    for (const ToolCallReader::Piece& piece : part.tool_pieces) {
      if (!piece.call) shown.text += piece.text;
      if (piece.call) num_begun = *piece.call;  // earlier calls are complete
    }
    std::string lines = shown.text.empty() && !has_logprobs(shown) ? std::string() : line(shown);
    if (num_begun > num_sent_calls_) lines += call_line(*part.choice.tools, num_begun);
    return lines;
  }

  std::string end_stream(AnswerChoices choices, const AnswerUsage& usage) override {
    const AnswerChoice& choice = *choices.front();
    std::string lines;
    if (choice.tools && choice.tools->calls().size() > num_sent_calls_)
      lines = call_line(*choice.tools, choice.tools->calls().size());
    return lines + dump_json(end(choice, "", usage)) + "\n";
  }

  std::string fail_stream(const std::string& sentence) override {
    return dump_json(ollama_error(500, sentence, "", "")) + "\n";
  }

 private:
  ordered_json begin(const std::string& text) const {
    ordered_json reply{{"model", model().name}, {"created_at", utc_time(std::chrono::system_clock::now())}};
    if (is_chat_) {
      reply["message"] = {{"role", "assistant"}, {"content", text}};
    } else {
      reply["response"] = text;
    }
    return reply;
  }

  ordered_json end(const AnswerChoice& choice, const std::string& text, const AnswerUsage& usage) const {
    ordered_json reply = begin(text);
    reply["done"] = true;
    const bool is_told = choice.finish_reason == "length" || !request().answers_nothing.empty();
    reply["done_reason"] = is_told ? choice.finish_reason : "stop";
    reply["total_duration"] = nanoseconds(usage.prompt_ms + usage.answer_ms);
    reply["load_duration"] = 0;
    reply["prompt_eval_count"] = usage.prompt_tokens;
    reply["prompt_eval_duration"] = nanoseconds(usage.prompt_ms);
    reply["eval_count"] = usage.answer_tokens;
    reply["eval_duration"] = nanoseconds(usage.answer_ms);
    return reply;
  }

  bool has_logprobs(const Piece& piece) const { return request().wants_logprobs && !piece.tokens.empty(); }

  void add_logprobs(const Piece& piece, ordered_json& reply) const {
    if (request().wants_logprobs) reply["logprobs"] = chat_logprobs(model(), piece.tokens);
  }

  std::string line(const Piece& piece) const {
    ordered_json reply = begin(piece.text);
    reply["done"] = false;
    add_logprobs(piece, reply);
    return dump_json(reply) + "\n";
  }

  /// Adds the calls that were not sent yet, up to `end`.
  void add_calls(const ToolReply& tools, size_t end, ordered_json& reply) {
    ordered_json& calls = reply["message"]["tool_calls"] = ordered_json::array();
    for (; num_sent_calls_ < end; ++num_sent_calls_) {
      calls.push_back({{"function",
                        {{"name", tools.calls()[num_sent_calls_].name},
                         {"arguments", tools.arguments_of(num_sent_calls_)}}}});
    }
  }

  std::string call_line(const ToolReply& tools, size_t end) {
    ordered_json reply = begin("");
    add_calls(tools, end, reply);
    reply["done"] = false;
    return dump_json(reply) + "\n";
  }

  bool is_chat_;
  size_t num_sent_calls_ = 0;
};

std::unique_ptr<ReplyFormat> make_chat(AnswerHead head) {
  return std::make_unique<LinesFormat>(std::move(head), true);
}

std::unique_ptr<ReplyFormat> make_generate(AnswerHead head) {
  return std::make_unique<LinesFormat>(std::move(head), false);
}

constexpr std::array<std::string_view, 1> kAnswerFormats = {"format"};

}  // namespace
}  // namespace ollama

nlohmann::ordered_json ollama_error(int /*status*/, std::string_view sentence, std::string_view /*field*/,
                                    std::string_view /*request_id*/) {
  return {{"error", replace_ill_formed(sentence)}};
}

const Dialect kOllamaChat{
    ollama::chat_fields, false,        ollama::kAnswerFormats, kOllamaObjects, ollama::parse_chat,
    ollama::make_chat,   ollama_error, ToolFormat::kOllama};
const Dialect kOllamaGenerate{
    ollama::generate_fields, false,       ollama::kAnswerFormats, kOllamaObjects, ollama::parse_generate,
    ollama::make_generate,   ollama_error};

}  // namespace lacuna
