// OpenAI's Responses API: POST /v1/responses. Nothing is stored, so each request has its whole conversation.
#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/name_list.h"
#include "server/dialect.h"
#include "server/message_parts.h"

namespace lacuna {
namespace responses {
namespace {

using nlohmann::ordered_json;

constexpr std::array<std::string_view, 4> kContentTypes = {"input_text", "output_text", "text", "refusal"};

/// Converts the items of an input to the messages of a conversation.
class InputReader {
 public:
  /// Adds an item; ignores those with is_foreign().
  void add(const FieldValue& item, GenerationRequest& request) {
    const ordered_json* type = find_value(item.object(), "type");
    if (type != nullptr && *type == "function_call") return add_call(item);
    if (type != nullptr && is_foreign(*type)) return leave_out(type->get<std::string>(), request);
    flush_calls();
    if (type != nullptr && *type == "function_call_output") return add_output(item, request);
    if (type != nullptr && *type == "item_reference")
      item.at("type").refuse(
          "the item itself: nothing is stored here (clients send it with \"store\": false)");
    if (type != nullptr && *type != "message") {
      item.at("type").refuse(
          R"("message", "function_call" or "function_call_output"; this endpoint takes no files or stored items)");
    }
    add_message(item);
  }

  Conversation take() {
    flush_calls();
    return std::move(conversation_);
  }

 private:
  /// Whether only the service that wrote an item can use it: thoughts, calls of other tools, and their
  /// results.
  static bool is_foreign(const ordered_json& type) {
    constexpr std::string_view kForeign =
        "reasoning compaction mcp_list_tools mcp_approval_response compaction_summary context_compaction "
        "ghost_snapshot additional_tools";
    if (!type.is_string()) return false;
    const std::string_view name = type.get_ref<const std::string&>();
    return has_name(kForeign, name) || (name != "function_call" && name.ends_with("_call")) ||
           (name != "function_call_output" && name.ends_with("_output")) ||
           name.ends_with("_approval_request");
  }

  void add_message(const FieldValue& item) {
    const ordered_json* role = find_value(item.value, "role");
    const ordered_json* content = find_value(item.value, "content");
    if (role == nullptr || content == nullptr) item.refuse("\"role\" and \"content\"");
    conversation_.add(role_of_turn(item.at("role").text()),
                      text_of_content(item.at("content"), kContentTypes));
  }

  void add_call(const FieldValue& item) {
    if (calls_.size() == kMaxCalls)
      throw FieldError(item.place, fmt::format("{} is call {} in a row; expected at most {}", item.place,
                                               kMaxCalls + 1, kMaxCalls));
    const FieldValue id = item.required("call_id"), name = item.required("name"),
                     arguments = item.required("arguments");
    calls_.push_back(
        history_.call(id.text(), id.place, name.text(), name.place, arguments.text(), arguments.place));
  }

  void add_output(const FieldValue& item, GenerationRequest& request) {
    const FieldValue id = item.required("call_id"), output = item.required("output");
    std::string text;
    if (!output.value.is_array()) text = text_of_content(output, kContentTypes);
    for (size_t i = 0; output.value.is_array() && i < output.value.size(); ++i) {
      const FieldValue part{fmt::format("{}.{}", output.place, i), output.value[i]};
      text += text_of_result_part(part, kContentTypes, request);
    }
    history_.add_result(id.text(), id.place, text, conversation_);
  }

  /// Adds consecutive calls, with the text before them, as one turn.
  void flush_calls() {
    if (calls_.empty()) return;
    nlohmann::ordered_json& messages = conversation_.messages;
    if (messages.empty() || messages.back()["role"] != "assistant") conversation_.add("assistant", "");
    add_calls(calls_, messages.back());
    calls_.clear();
  }

  Conversation conversation_;
  std::vector<ToolCall> calls_;  // of the current turn
  ToolHistory history_;
};

void read_input(const FieldValue& field, GenerationRequest& request) {
  request.prompt_field = field.place;
  InputReader input;
  if (field.value.is_string()) {
    request.prompts.emplace_back(Conversation(std::vector<Message>{{"user", field.text()}}));
    return;
  }
  if (!field.value.is_array() || field.value.empty()) field.refuse("text or a list of items");
  for (size_t i = 0; i < field.value.size(); ++i)
    input.add({fmt::format("{}.{}", field.place, i), field.value[i]}, request);
  request.prompts.emplace_back(input.take());
}

/// Puts the instructions before the input's messages, which must have been read.
void read_instructions(const FieldValue& field, GenerationRequest& request) {
  add_system(field.text(), request);
}

void read_include(const FieldValue& field, GenerationRequest& request) {
  for (const ordered_json& each : field.list()) {
    if (each == "message.output_text.logprobs") {
      request.wants_logprobs = true;
    } else {
      leave_out(field.place, request);
    }
  }
}

void read_truncation(const FieldValue& field, GenerationRequest& request) {
  if (field.text() != "disabled") leave_out(field.place, request);  // nothing is truncated
}

/// Checks the type alone; parse_answer_format() reads the format.
void read_text(const FieldValue& field, GenerationRequest& /*request*/) {
  (void)field.object();
}

/// Reads the effort (reasoning_effort in chats). Must be read after the input.
void read_reasoning(const FieldValue& field, GenerationRequest& request) {
  if (find_value(field.object(), "effort") != nullptr)
    set_effort(field.at("effort").text(), std::get<Conversation>(request.prompts.front()));
}

constexpr HintNames kHints[] = {
    {"max_tool_calls", "left out: it counts calls of the service's tools"},
    {"stream_options client_metadata personality context_management", "left out"},
};

constexpr RequestField kFields[] = {
    {"model", kString, "a model of this server"},
    {"input", R"({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}]})",
     "text, or a list of messages, function calls and their outputs", read_input, true},
    {"instructions", kString, "a system message before the input", read_instructions},
    {"max_output_tokens", kPositiveInteger, "the most positions of the answer", read_limit},
    {"temperature", kNumber, "0: the likeliest token", as_setting<setting::kTemperature>},
    {"top_p", kNumber, "without effect at temperature 0", as_setting<setting::kTopP>},
    {"text", kObject, "format: text, json_object or json_schema", read_text},
    {"stream", kBoolean, "typed events in the place of one object", as_flag<&GenerationRequest::stream>},
    {"include", kStrings, "message.output_text.logprobs; others have no effect", read_include},
    {"top_logprobs", kAlternativeCount, "tokens that are listed for each position", read_num_probs},
    {"reasoning", kObject, "effort: the chat template's reasoning_effort", read_reasoning},
    {"truncation", kString, "left out: no conversation is cut", read_truncation},
    {"tools", kObjects, "functions that the answer may call"},
    {"tool_choice", R"({"type": ["string", "object"]})", "none, auto, required or one function"},
    {"parallel_tool_calls", kBoolean, "whether an answer may have several calls"},
    {"previous_response_id", kString, "refused", refuse_field},
    {"conversation", kAnyValue, "refused", refuse_field},
    {"background", kBoolean, "refused", refuse_field},
    {"prompt", kObject, "refused: a stored template", refuse_field},
};

RequestFields fields() {
  static const std::vector<RequestField> all =
      join({kFields, fields_of(kHints), hint_fields(), own_fields()});
  return all;
}

GenerationRequest parse(const ordered_json& body, const GenerationOptions& defaults) {
  return read_request(body, defaults, fields());
}

class ResponsesFormat final : public ReplyFormat {
 public:
  explicit ResponsesFormat(AnswerHead head)
      : ReplyFormat(std::move(head)), id_(new_answer_id("resp_")), item_id_(new_answer_id("msg_")) {}

  ordered_json whole(AnswerChoices choices, const AnswerUsage& usage) override {
    const AnswerChoice& choice = *choices.front();
    ordered_json output = ordered_json::array();
    if (!choice.tools) {
      output.push_back(message_item(status_of(choice), choice.answer));
    } else {
      const std::string& text = choice.tools->content();
      text_tokens_ = choice.answer.tokens;
      if (!text.empty() || choice.tools->calls().empty())
        output.push_back(message_item(status_of(choice), {text, take_tokens(text)}));
      for (size_t i = 0; i < choice.tools->calls().size(); ++i)
        output.push_back(call_item(*choice.tools, i, status_of(choice)));
    }
    ordered_json reply = response(choice.finish_reason, std::move(output), usage);
    reply["lacuna"] = own_part(choice, request());
    return reply;
  }

  std::string begin_stream(const AnswerUsage& /*usage*/) override {
    const ordered_json begun = response("", ordered_json::array(), {});
    std::string text = event("response.created", {{"response", begun}});
    text += event("response.in_progress", {{"response", begun}});
    if (!request().tools) text += begin_message();  // with tools, the answer may have no message
    return text;
  }

  std::string part(const AnswerPart& part) override {
    if (!part.choice.tools) return add_text(part.piece);
    std::string text;
    text_tokens_.insert(text_tokens_.end(), part.piece.tokens.begin(), part.piece.tokens.end());
    for (const ToolCallReader::Piece& piece : part.tool_pieces) {
      if (!piece.call) {
        if (open_ != Open::kMessage) {
          text += end_item(part.choice, "completed");
          text += begin_message();
        }
        text += add_text({piece.text, take_tokens(piece.text)});
      } else if (!piece.name.empty()) {
        text += end_item(part.choice, "completed");
        text += begin_call(*part.choice.tools, *piece.call);
      } else {
        text += event("response.function_call_arguments.delta",
                      in_item(call_item_id(*part.choice.tools, call_), {{"delta", piece.text}}));
      }
    }
    return text;
  }

  std::string end_stream(AnswerChoices choices, const AnswerUsage& usage) override {
    const AnswerChoice& choice = *choices.front();
    std::string text;
    if (output_.empty() && open_ == Open::kNothing) text += begin_message();
    text += end_item(choice, status_of(choice));
    ordered_json reply = response(choice.finish_reason, output_, usage);
    reply["lacuna"] = {{"stats", stats_of(choice)}};
    const char* last = is_complete(choice.finish_reason) ? "response.completed" : "response.incomplete";
    return text + event(last, {{"response", std::move(reply)}});
  }

  std::string fail_stream(const std::string& sentence) override {
    ordered_json reply = response("", ordered_json::array(), {});
    reply["status"] = "failed";
    reply["error"] = {{"code", "server_error"}, {"message", sentence}};
    return event("response.failed", {{"response", std::move(reply)}});
  }

 private:
  enum class Open : uint8_t { kNothing, kMessage, kCall };

  static bool is_complete(std::string_view finish_reason) {
    return finish_reason == "stop" || finish_reason == "tool_calls";
  }
  static const char* status_of(const AnswerChoice& choice) {
    return is_complete(choice.finish_reason) ? "completed" : "incomplete";
  }

  std::string event(std::string_view type, const ordered_json& data) {
    ordered_json reply{{"type", type}, {"sequence_number", sequence_number_++}};
    reply.update(data);
    return sse(reply, type);
  }

  // Events of the current item of a stream.

  std::string begin_message() {
    open_ = Open::kMessage;
    streamed_ = {};
    ordered_json added = message_item("in_progress", {});
    added["content"] = ordered_json::array();
    std::string text =
        event("response.output_item.added", {{"output_index", output_.size()}, {"item", std::move(added)}});
    text += event("response.content_part.added", in_content({{"part", text_part({})}}));
    return text;
  }

  std::string add_text(const Piece& piece) {
    streamed_.text += piece.text;
    if (request().wants_logprobs) {
      streamed_.tokens.insert(streamed_.tokens.end(), piece.tokens.begin(), piece.tokens.end());
    }
    if (piece.text.empty()) return {};
    return event("response.output_text.delta",
                 in_content({{"delta", piece.text}, {"logprobs", logprobs(piece)}}));
  }

  /// Takes the tokens that begin in the next part `text` of a message, for answers that may have calls.
  std::vector<TokenRecord> take_tokens(std::string_view text) {
    if (!request().wants_logprobs) return {};
    text_end_ += text.size();
    auto end = text_tokens_.begin();
    for (; end != text_tokens_.end() && token_begin_ < text_end_; ++end)
      token_begin_ += model().text_of(std::span(&end->token, 1)).size();
    std::vector<TokenRecord> taken(text_tokens_.begin(), end);
    text_tokens_.erase(text_tokens_.begin(), end);
    return taken;
  }

  std::string begin_call(const ToolReply& tools, size_t call) {
    open_ = Open::kCall;
    call_ = call;
    ordered_json added = call_item(tools, call, "in_progress");
    added["arguments"] = "";
    return event("response.output_item.added",
                 {{"output_index", output_.size()}, {"item", std::move(added)}});
  }

  std::string end_item(const AnswerChoice& choice, const char* status) {
    std::string text;
    ordered_json done;
    if (open_ == Open::kMessage) {
      done = message_item(status, streamed_);
      text += event("response.output_text.done",
                    in_content({{"text", streamed_.text}, {"logprobs", logprobs(streamed_)}}));
      text += event("response.content_part.done", in_content({{"part", text_part(streamed_)}}));
    } else if (open_ == Open::kCall) {
      done = call_item(*choice.tools, call_, status);
      text += event("response.function_call_arguments.done",
                    in_item(call_item_id(*choice.tools, call_),
                            {{"name", done["name"]}, {"arguments", done["arguments"]}}));
    } else {
      return {};
    }
    open_ = Open::kNothing;
    text += event("response.output_item.done", {{"output_index", output_.size()}, {"item", done}});
    output_.push_back(std::move(done));
    return text;
  }

  /// Data of an event for the current item.
  ordered_json in_item(const std::string& item_id, const ordered_json& data) const {
    ordered_json reply{{"item_id", item_id}, {"output_index", output_.size()}};
    reply.update(data);
    return reply;
  }

  /// Data of an event for the current message's text.
  ordered_json in_content(const ordered_json& data) const {
    ordered_json reply = in_item(item_id_, {{"content_index", 0}});
    reply.update(data);
    return reply;
  }

  ordered_json logprobs(const Piece& piece) const {
    return request().wants_logprobs ? chat_logprobs(model(), piece.tokens) : ordered_json::array();
  }

  ordered_json text_part(const Piece& piece) const {
    return {{"type", "output_text"},
            {"text", piece.text},
            {"annotations", ordered_json::array()},
            {"logprobs", logprobs(piece)}};
  }

  ordered_json message_item(const char* status, const Piece& piece) const {
    return {{"id", item_id_},
            {"type", "message"},
            {"status", status},
            {"role", "assistant"},
            {"content", ordered_json::array({text_part(piece)})}};
  }

  static std::string call_item_id(const ToolReply& tools, size_t call) {
    return "fc_" + tools.id_of(call).substr(std::string_view("call_").size());
  }

  static ordered_json call_item(const ToolReply& tools, size_t call, const char* status) {
    return {{"id", call_item_id(tools, call)},
            {"type", "function_call"},
            {"status", status},
            {"call_id", tools.id_of(call)},
            {"name", tools.calls()[call].name},
            {"arguments", tools.calls()[call].arguments}};
  }

  ordered_json tool_choice() const {
    if (!sent_tools()) return "auto";
    const Tools& tools = *sent_tools();
    if (tools.choice == ToolChoice::kNone) return "none";
    if (tools.choice == ToolChoice::kNamed) return {{"type", "function"}, {"name", tools.chosen}};
    return tools.choice == ToolChoice::kAuto ? "auto" : "required";
  }

  const std::optional<Tools>& sent_tools() const {
    return request().tools ? request().tools : request().disabled_tools;
  }

  /// The request's functions, in the request's format.
  ordered_json tools() const {
    ordered_json list = ordered_json::array();
    if (!sent_tools()) return list;
    for (const ToolFunction& each : sent_tools()->functions) {
      ordered_json tool{{"type", "function"}};
      tool.update(ordered_json::parse(each.definition)["function"]);
      if (!tool.contains("parameters")) tool["parameters"] = nullptr;
      tool["strict"] = each.function.strict;
      list.push_back(std::move(tool));
    }
    return list;
  }

  /// The response object.
  ///   finish_reason  empty: in progress
  ordered_json response(const std::string& finish_reason, ordered_json output,
                        const AnswerUsage& usage) const {
    const bool is_done = !finish_reason.empty();
    const GenerationOptions& options = request().options;
    const auto number = [](const auto& value) { return value ? ordered_json(*value) : ordered_json(); };
    ordered_json reply{{"id", id_},
                       {"object", "response"},
                       {"created_at", head().created},
                       {"status", !is_done                     ? "in_progress"
                                  : is_complete(finish_reason) ? "completed"
                                                               : "incomplete"},
                       {"error", nullptr},
                       {"incomplete_details", nullptr},
                       {"instructions", nullptr},
                       {"max_output_tokens", number(options.gen_length)},
                       {"metadata", ordered_json::object()},
                       {"model", model().name},
                       {"output", std::move(output)},
                       {"parallel_tool_calls", !sent_tools() || sent_tools()->is_parallel},
                       {"previous_response_id", nullptr},
                       {"store", false},
                       {"temperature", options.temperature.value_or(0)},
                       {"tool_choice", tool_choice()},
                       {"tools", tools()},
                       {"top_p", options.top_p.value_or(1)},
                       {"truncation", "disabled"},
                       {"usage", nullptr}};
    if (is_done && !is_complete(finish_reason))
      reply["incomplete_details"] = {{"reason", "max_output_tokens"}};
    if (is_done) {
      reply["usage"] = {
          {"input_tokens", usage.prompt_tokens},
          {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}, {"cache_write_tokens", 0}}},
          {"output_tokens", usage.answer_tokens},
          {"output_tokens_details", {{"reasoning_tokens", 0}}},
          {"total_tokens", usage.prompt_tokens + usage.answer_tokens}};
    }
    return reply;
  }

  std::string id_, item_id_;
  int64_t sequence_number_ = 0;
  // The state of a stream:
  ordered_json output_ = ordered_json::array();  // finished items
  Open open_ = Open::kNothing;                   // kind of the current item
  Piece streamed_;                               // text of the current message so far
  size_t call_ = 0;                              // the current call
  // For answers that may have calls:
  std::vector<TokenRecord> text_tokens_;  // tokens not yet assigned to a message
  size_t token_begin_ = 0;                // bytes of text before text_tokens_
  size_t text_end_ = 0;                   // bytes of text in messages so far
};

constexpr std::array<std::string_view, 1> kAnswerFormats = {"text"};

}  // namespace
}  // namespace responses

const Dialect kOpenAiResponses{responses::fields,
                               false,
                               responses::kAnswerFormats,
                               kResponsesObjects,
                               responses::parse,
                               make_format<responses::ResponsesFormat>,
                               openai_error,
                               ToolFormat::kResponses};

}  // namespace lacuna
