// Anthropic's Messages API: POST /v1/messages.
#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/name_list.h"
#include "server/dialect.h"
#include "server/message_parts.h"
#include "server/prompts.h"
#include "tokenizer/unicode.h"

namespace lacuna {
namespace anthropic {
namespace {

using nlohmann::ordered_json;

/// Whether only the service that wrote a block can use it: thoughts, and calls and results of its own tools.
bool is_foreign(std::string_view type) {
  constexpr std::string_view kForeign =
      "thinking redacted_thinking server_tool_use mcp_tool_use container_upload compaction fallback";
  return has_name(kForeign, type) || (type.ends_with("_tool_result") && type != "tool_result");
}

/// The text of a document; FieldError for other kinds of documents.
std::string text_of_document(const FieldValue& block) {
  const FieldValue source = block.required("source");
  const std::string type = FieldValue{source.place, source.object()}.required("type").text();
  if (type == "text") return source.required("data").text();
  if (type == "content") return text_of_content(source.required("content"), kTextPart);
  source.required("type").refuse(R"("text" or "content"; this server reads texts alone)");
}

/// The text of a tool's result: a string or text parts. Ignores blocks with is_foreign().
std::string text_of_result(const FieldValue& block, GenerationRequest& request) {
  const ordered_json* content = find_value(block.value, "content");
  if (content == nullptr) return "";
  if (!content->is_array()) return text_of_content(block.at("content"), kTextPart);
  std::string text;
  for (size_t i = 0; i < content->size(); ++i) {
    const FieldValue part{fmt::format("{}.content.{}", block.place, i), (*content)[i]};
    const ordered_json* type = find_value(part.value, "type");
    if (type != nullptr && *type == "tool_reference") {
      leave_out("tool_reference", request);
    } else if (type != nullptr && *type == "document") {
      text += text_of_document(part);
    } else if (type != nullptr && *type == "search_result") {
      text += text_of_content(part.required("content"), kTextPart);
    } else {
      text += text_of_result_part(part, kTextPart, request);
    }
  }
  return text;
}

/// Reads a message of blocks: texts, calls (from the assistant) and results (from the user).
void read_blocks(const std::string& role, const FieldValue& content, ToolHistory& history,
                 Conversation& conversation, GenerationRequest& request) {
  std::string text;
  std::vector<ToolCall> calls;
  for (size_t i = 0; i < content.value.size(); ++i) {
    const FieldValue block{fmt::format("{}.{}", content.place, i), content.value[i]};
    const std::string type = FieldValue{block.place, block.object()}.required("type").text();
    if (is_foreign(type)) {
      leave_out(type, request);
    } else if (type == "document" && role == "user") {
      text += text_of_document(block);
    } else if (type == "search_result" && role == "user") {
      text += text_of_content(block.required("content"), kTextPart);
    } else if (type == "tool_use" && role == "assistant") {
      if (calls.size() == kMaxCalls) block.refuse(fmt::format("at most {} calls", kMaxCalls));
      const FieldValue id = block.required("id"), name = block.required("name"),
                       input = block.required("input");
      calls.push_back(
          history.call(id.text(), id.place, name.text(), name.place, input.object().dump(), input.place));
    } else if (type == "tool_result" && role == "user") {
      const FieldValue id = block.required("tool_use_id");
      const std::string result = text_of_result(block, request);
      history.add_result(id.text(), id.place, result, conversation);
    } else {
      if (type != "text")
        block.at("type").refuse(role == "assistant"
                                    ? R"("text" or "tool_use"; this server reads texts alone)"
                                    : R"("text" or "tool_result"; this server reads texts alone)");
      text += block.required("text").text();
    }
  }
  if (text.empty() && calls.empty() && !content.value.empty()) return;
  nlohmann::ordered_json& message = conversation.add(role, text);
  if (!calls.empty()) add_calls(calls, message);
}

void read_messages(const FieldValue& field, GenerationRequest& request) {
  if (!field.value.is_array() || field.value.empty()) field.refuse("a list of at least one message");
  Conversation conversation;
  ToolHistory history;
  std::string last;
  size_t num_before = 0;  // messages before the last one
  for (size_t i = 0; i < field.value.size(); ++i) {
    const FieldValue item{fmt::format("{}.{}", field.place, i), field.value[i]};
    const ordered_json* role = find_value(item.object(), "role");
    const ordered_json* content = find_value(item.object(), "content");
    if (role == nullptr || content == nullptr) item.refuse("\"role\" and \"content\"");
    if (*role != "user" && *role != "assistant" && *role != "system")
      item.at("role").refuse("\"user\", \"assistant\" or \"system\"");
    last = role->get<std::string>();
    num_before = conversation.messages.size();
    if (content->is_array()) {
      read_blocks(last, item.at("content"), history, conversation, request);
    } else {
      conversation.add(last, text_of_content(item.at("content"), kTextPart));
    }
  }
  // A final assistant message begins the answer, unless it has only thoughts.
  if (last == "assistant" && conversation.messages.size() > num_before)
    continue_last_message(fmt::format("{}.{}", field.place, field.value.size() - 1), conversation);
  request.prompts.emplace_back(std::move(conversation));
  request.prompt_field = field.place;
}

/// Puts the system message before the messages, which must have been read.
void read_system(const FieldValue& field, GenerationRequest& request) {
  add_system(text_of_content(field, kTextPart), request);
}

void read_stop_sequences(const FieldValue& field, GenerationRequest& request) {
  (void)field.list();
  read_stop_texts(field, request);
}

void read_thinking(const FieldValue& field, GenerationRequest& request) {
  const ordered_json* type = find_value(field.object(), "type");
  if (type == nullptr || (*type != "disabled" && *type != "enabled" && *type != "adaptive"))
    field.refuse("type disabled, enabled or adaptive");
  if (*type != "disabled") return leave_out(field.place, request);
  std::get<Conversation>(request.prompts.front()).keywords["enable_thinking"] = false;
}

/// Reads a conversation to be stored. Stored ones are refused, since this server keeps none.
void read_thread(const FieldValue& field, GenerationRequest& request) {
  const ordered_json* type = find_value(field.object(), "type");
  if (type == nullptr || *type != "create") field.refuse("type create: this server keeps no conversations");
  leave_out(field.place, request);
}

/// Checks the type alone; parse_answer_format() reads the format.
void read_output(const FieldValue& field, GenerationRequest& /*request*/) {
  (void)field.object();
}

constexpr HintNames kHints[] = {
    {"fallbacks", "left out: no other model answers instead"},
    {"mcp_servers container", "left out, as are the tools in them: the server runs none"},
    {"context_management inference_geo speed compaction diagnostics fallback_credit_token billing_policy "
     "user_profile_id workspace_id betas cache_control",
     "left out"},
};

constexpr std::string_view kTexts =
    R"({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}]})";

constexpr RequestField kFields[] = {
    {"model", kString, "a model of this server"},
    {"messages", kObjects, "messages of user and assistant, with text or blocks: text, tool_use, tool_result",
     read_messages, true},
    {"system", kTexts, "a system message before them", read_system},
    {"max_tokens", kPositiveInteger, "the most positions of the answer", read_limit, true},
    {"stop_sequences", kStrings, "texts that end the answer", read_stop_sequences},
    {"temperature", kNumber, "0: the likeliest token", as_setting<setting::kTemperature>},
    {"top_p", kNumber, "without effect at temperature 0", as_setting<setting::kTopP>},
    {"top_k", kInteger, "without effect at temperature 0", as_setting<setting::kTopK>},
    {"stream", kBoolean, "events in the place of one object", as_flag<&GenerationRequest::stream>},
    {"output_config", kObject, "format: json_schema with a schema", read_output},
    {"output_format", kObject, "type json_schema with a schema", read_output},
    {"thinking", kObject, "disabled: the chat template's enable_thinking is false", read_thinking},
    {"tools", kObjects, "functions that the answer may call"},
    {"tool_choice", kObject, "type auto, any, tool (with name) or none"},
    {"thread", kObject, "left out where its type is create; nothing is stored", read_thread},
};

RequestFields fields() {
  static const std::vector<RequestField> all =
      join({kFields, fields_of(kHints), hint_fields(), own_fields()});
  return all;
}

/// Refuses an answer format if the last message begins the answer: a format applies to whole answers.
void refuse_format_of_the_rest(const ordered_json& body, const GenerationRequest& request) {
  if (std::get<Conversation>(request.prompts.front()).continuation.empty()) return;
  const ordered_json* config = find_value(body, "output_config");
  const bool is_within = config != nullptr && find_value(*config, "format") != nullptr;
  if (!is_within && find_value(body, "output_format") == nullptr) return;
  throw FieldError("messages",
                   fmt::format("messages end with the assistant's, which the answer would continue, "
                               "and {} is of a whole answer; expected one of them",
                               is_within ? "output_config.format" : "output_format"));
}

GenerationRequest parse(const ordered_json& body, const GenerationOptions& defaults) {
  GenerationRequest request = read_request(body, defaults, fields());
  refuse_format_of_the_rest(body, request);
  return request;
}

class MessagesFormat final : public ReplyFormat {
 public:
  explicit MessagesFormat(AnswerHead head) : ReplyFormat(std::move(head)), id_(new_answer_id("msg_")) {}

  ordered_json whole(AnswerChoices choices, const AnswerUsage& usage) override {
    const AnswerChoice& choice = *choices.front();
    ordered_json reply = message(usage);
    const std::string& text = choice.tools ? choice.tools->content() : choice.answer.text;
    const size_t num_calls = choice.tools ? choice.tools->calls().size() : 0;
    if (!text.empty() || num_calls == 0) reply["content"].push_back({{"type", "text"}, {"text", text}});
    for (size_t i = 0; i < num_calls; ++i) {
      ordered_json block = call_block(*choice.tools, i);
      block["input"] = choice.tools->arguments_of(i);
      reply["content"].push_back(std::move(block));
    }
    reply.update(stop_of(choice));
    reply["usage"]["output_tokens"] = usage.answer_tokens;
    reply["lacuna"] = own_part(choice, request());
    return reply;
  }

  std::string begin_stream(const AnswerUsage& usage) override {
    std::string text = event({{"type", "message_start"}, {"message", message(usage)}});
    if (!request().tools) text += begin_block(text_block());
    return text;
  }

  std::string part(const AnswerPart& part) override {
    if (!part.choice.tools) return add_text(part.piece.text);
    std::string text;
    for (const ToolCallReader::Piece& piece : part.tool_pieces) {
      if (!piece.call) {
        if (!in_text_) {
          text += end_block();
          text += begin_block(text_block());
        }
        text += add_text(piece.text);
      } else if (!piece.name.empty()) {
        text += end_block();
        text += begin_block(call_block(*part.choice.tools, *piece.call));
      } else {
        text += delta({{"type", "input_json_delta"}, {"partial_json", piece.text}});
      }
    }
    return text;
  }

  std::string end_stream(AnswerChoices choices, const AnswerUsage& usage) override {
    const AnswerChoice& choice = *choices.front();
    ordered_json counts = usage_of(usage);
    counts["output_tokens"] = usage.answer_tokens;
    return end_block() +
           event({{"type", "message_delta"},
                  {"delta", stop_of(choice)},
                  {"usage", std::move(counts)},
                  {"lacuna", {{"stats", stats_of(choice)}}}}) +
           event({{"type", "message_stop"}});
  }

  std::string fail_stream(const std::string& sentence) override {
    return event(anthropic_error(500, sentence, "", ""));
  }

 private:
  static std::string event(const ordered_json& data) {
    return sse(data, data["type"].get_ref<const std::string&>());
  }

  static ordered_json stop_of(const AnswerChoice& choice) {
    if (!choice.stop_text.empty()) {
      return {{"stop_reason", "stop_sequence"}, {"stop_sequence", choice.stop_text}};
    }
    const char* reason = "max_tokens";
    if (choice.finish_reason == "stop") reason = "end_turn";
    if (choice.finish_reason == "tool_calls") reason = "tool_use";
    return {{"stop_reason", reason}, {"stop_sequence", nullptr}};
  }

  static ordered_json text_block() { return {{"type", "text"}, {"text", ""}}; }
  static ordered_json call_block(const ToolReply& tools, size_t call) {
    return {{"type", "tool_use"},
            {"id", tools.id_of(call)},
            {"name", tools.calls()[call].name},
            {"input", ordered_json::object()}};
  }

  // Events of the current block of a stream.

  std::string begin_block(const ordered_json& block) {
    is_open_ = true;
    in_text_ = block["type"] == "text";
    return event({{"type", "content_block_start"}, {"index", num_blocks_}, {"content_block", block}});
  }
  std::string add_text(const std::string& text) const {
    // No conditional expression: when it throws, g++ 12 destroys its braced list after the list's scope.
    if (text.empty()) return {};
    return delta({{"type", "text_delta"}, {"text", text}});
  }
  std::string delta(const ordered_json& data) const {
    return event({{"type", "content_block_delta"}, {"index", num_blocks_}, {"delta", data}});
  }
  std::string end_block() {
    if (!is_open_) return {};
    is_open_ = in_text_ = false;
    return event({{"type", "content_block_stop"}, {"index", num_blocks_++}});
  }

  /// Usage, with cached prompt tokens counted separately.
  static ordered_json usage_of(const AnswerUsage& usage) {
    return {{"input_tokens", usage.prompt_tokens - usage.cached_tokens},
            {"cache_creation_input_tokens", 0},
            {"cache_read_input_tokens", usage.cached_tokens},
            {"output_tokens", 0}};
  }

  ordered_json message(const AnswerUsage& usage) const {
    return {{"id", id_},
            {"type", "message"},
            {"role", "assistant"},
            {"model", model().name},
            {"content", ordered_json::array()},
            {"stop_reason", nullptr},
            {"stop_sequence", nullptr},
            {"usage", usage_of(usage)}};
  }

  std::string id_;
  // The state of a stream:
  int64_t num_blocks_ = 0;  // finished blocks
  bool is_open_ = false;
  bool in_text_ = false;
};

std::string_view error_type(int status) {
  constexpr std::array<std::pair<int, std::string_view>, 6> kTypes = {{{401, "authentication_error"},
                                                                       {403, "permission_error"},
                                                                       {404, "not_found_error"},
                                                                       {413, "request_too_large"},
                                                                       {429, "rate_limit_error"},
                                                                       {503, "overloaded_error"}}};
  for (const auto& [of_status, type] : kTypes) {
    if (of_status == status) return type;
  }
  return status < 500 ? "invalid_request_error" : "api_error";
}

constexpr std::array<std::string_view, 2> kAnswerFormats = {"output_config", "output_format"};

}  // namespace
}  // namespace anthropic

nlohmann::ordered_json anthropic_error(int status, std::string_view sentence, std::string_view /*field*/,
                                       std::string_view request_id) {
  nlohmann::ordered_json reply{
      {"type", "error"},
      {"error", {{"type", anthropic::error_type(status)}, {"message", replace_ill_formed(sentence)}}}};
  if (!request_id.empty()) reply["request_id"] = request_id;
  return reply;
}

const Dialect kAnthropicMessages{anthropic::fields,         false,
                                 anthropic::kAnswerFormats, kMessagesObjects,
                                 anthropic::parse,          make_format<anthropic::MessagesFormat>,
                                 anthropic_error,           ToolFormat::kAnthropic};

}  // namespace lacuna
