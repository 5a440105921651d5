// OpenAI's Responses: POST /v1/responses. Nothing is stored, so each request brings its whole conversation.
#include <fmt/format.h>

#include <array>
#include <utility>

#include "server/dialect.h"

namespace lacuna {
namespace responses {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::array<std::string_view, 3> kContentTypes = {"input_text", "output_text", "text"};

void add_message(const FieldValue& item, std::vector<Message>& messages) {
  const json& object = item.object();
  const json* type = find_value(object, "type");
  if (type != nullptr && *type != "message") {
    item.at("type").refuse("\"message\"; this endpoint takes no tools, files or stored items");
  }
  const json* role = find_value(object, "role");
  const json* content = find_value(object, "content");
  if (role == nullptr || content == nullptr) item.refuse("\"role\" and \"content\"");
  std::string name = item.at("role").text();
  if (name == "developer") name = "system";
  messages.push_back({std::move(name), text_of_content(item.at("content"), kContentTypes)});
}

void read_input(const FieldValue& field, GenerationRequest& request) {
  std::vector<Message> messages;
  if (field.value.is_string()) {
    messages.push_back({"user", field.text()});
  } else {
    if (!field.value.is_array() || field.value.empty()) field.refuse("text or a list of messages");
    for (size_t i = 0; i < field.value.size(); ++i) {
      add_message({fmt::format("{}.{}", field.place, i), field.value[i]}, messages);
    }
  }
  request.prompts.emplace_back(std::move(messages));
}

/// Comes before the input's messages, and is read after them.
void read_instructions(const FieldValue& field, GenerationRequest& request) {
  auto& messages = std::get<std::vector<Message>>(request.prompts.front());
  messages.insert(messages.begin(), {"system", field.text()});
}

void read_store(const FieldValue& field, GenerationRequest& /*request*/) {
  if (field.flag()) field.refuse("false; this server stores no responses");
}

void read_include(const FieldValue& field, GenerationRequest& request) {
  for (const json& each : field.list()) {
    if (each == "message.output_text.logprobs") request.wants_logprobs = true;
  }
}

void read_top_logprobs(const FieldValue& field, GenerationRequest& request) {
  request.num_alternatives = static_cast<int32_t>(field.integer(0, kMostAlternatives));
  if (request.num_alternatives == 0) return;
  request.wants_logprobs = true;
  request.keys["alternatives"] = field.place;
}

void read_truncation(const FieldValue& field, GenerationRequest& /*request*/) {
  if (field.text() != "disabled") field.refuse("\"disabled\"; this server cuts no conversation");
}

void read_tool_choice(const FieldValue& field, GenerationRequest& /*request*/) {
  if (field.value != "auto" && field.value != "none") field.refuse("\"auto\" or \"none\", without tools");
}

void read_text(const FieldValue& field, GenerationRequest& /*request*/) {
  (void)field.object();  // its format is read in the order of its keys (server/answer_format.h)
}

constexpr RequestField kFields[] = {
    {"model", R"({"type": "string"})", "a model of this server"},
    {"input", R"({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}]})",
     "text, or a list of messages with role and content", read_input, true},
    {"instructions", R"({"type": "string"})", "a system message before the input", read_instructions},
    {"max_output_tokens", R"({"type": "integer", "minimum": 1})", "positions of the answer",
     as_setting<setting::kGenLength>},
    {"temperature", R"({"type": "number"})", "0: the likeliest token", as_setting<setting::kTemperature>},
    {"top_p", R"({"type": "number"})", "without effect at temperature 0", as_setting<setting::kTopP>},
    {"text", R"({"type": "object"})", "format: text, json_object or json_schema", read_text},
    {"stream", R"({"type": "boolean"})", "typed events in the place of one object", read_stream},
    {"include", R"({"type": "array", "items": {"type": "string"}})",
     "message.output_text.logprobs; others have no effect", read_include},
    {"top_logprobs", R"({"type": "integer", "minimum": 0, "maximum": 20})",
     "tokens that are listed for each position", read_top_logprobs},
    {"store", R"({"type": "boolean"})", "false: nothing is stored", read_store},
    {"truncation", R"({"type": "string"})", "disabled", read_truncation},
    {"tool_choice", R"({"type": "string"})", "auto or none", read_tool_choice},
    {"previous_response_id", R"({"type": "string"})", "refused", refuse_field},
    {"conversation", R"({})", "refused", refuse_field},
    {"background", R"({"type": "boolean"})", "refused", refuse_field},
    {"prompt", R"({"type": "object"})", "refused: a stored template", refuse_field},
    {"tools", R"({"type": "array"})", "refused", refuse_field},
};

RequestFields fields() {
  static const std::vector<RequestField> all = join({kFields, own_fields()});
  return all;
}

GenerationRequest parse(const json& body, const GenerationOptions& defaults) {
  return read_request(body, defaults, fields());
}

class ResponsesFormat final : public ReplyFormat {
 public:
  explicit ResponsesFormat(AnswerHead head)
      : ReplyFormat(std::move(head)), id_(new_answer_id("resp_")), item_id_(new_answer_id("msg_")) {}

  ordered_json whole(AnswerChoices choices, const AnswerUsage& usage) override {
    const AnswerChoice& choice = *choices.front();
    ordered_json reply =
        response(choice.finish_reason, ordered_json::array({item(status_of(choice), choice.answer)}), usage);
    reply["lacuna"] = own_part(choice, request());
    return reply;
  }

  std::string begin_stream(const AnswerUsage& /*usage*/) override {
    const ordered_json begun = response("", ordered_json::array(), {});
    ordered_json added = item("in_progress", {});
    added["content"] = ordered_json::array();
    std::string text = event("response.created", {{"response", begun}});
    text += event("response.in_progress", {{"response", begun}});
    text += event("response.output_item.added", {{"output_index", 0}, {"item", std::move(added)}});
    text += event("response.content_part.added", in_content({{"part", text_part({})}}));
    return text;
  }

  std::string part(const AnswerPart& part) override {
    streamed_.text += part.piece.text;
    if (request().wants_logprobs) {
      streamed_.tokens.insert(streamed_.tokens.end(), part.piece.tokens.begin(), part.piece.tokens.end());
    }
    if (part.piece.text.empty()) return {};
    return event("response.output_text.delta",
                 in_content({{"delta", part.piece.text}, {"logprobs", logprobs(part.piece)}}));
  }

  std::string end_stream(AnswerChoices choices, const AnswerUsage& usage) override {
    const AnswerChoice& choice = *choices.front();
    const ordered_json done = item(status_of(choice), streamed_);
    ordered_json reply = response(choice.finish_reason, ordered_json::array({done}), usage);
    reply["lacuna"] = {{"stats", stats_of(choice)}};
    const char* last = choice.finish_reason == "stop" ? "response.completed" : "response.incomplete";
    std::string text = event("response.output_text.done",
                             in_content({{"text", streamed_.text}, {"logprobs", logprobs(streamed_)}}));
    text += event("response.content_part.done", in_content({{"part", text_part(streamed_)}}));
    text += event("response.output_item.done", {{"output_index", 0}, {"item", done}});
    text += event(last, {{"response", std::move(reply)}});
    return text;
  }

  std::string fail_stream(const std::string& sentence) override {
    ordered_json reply = response("", ordered_json::array(), {});
    reply["status"] = "failed";
    reply["error"] = {{"code", "server_error"}, {"message", sentence}};
    return event("response.failed", {{"response", std::move(reply)}});
  }

 private:
  static const char* status_of(const AnswerChoice& choice) {
    return choice.finish_reason == "stop" ? "completed" : "incomplete";
  }

  std::string event(std::string_view type, const ordered_json& data) {
    ordered_json reply{{"type", type}, {"sequence_number", sequence_number_++}};
    reply.update(data);
    return sse(reply, type);
  }

  /// Data of an event that is about the answer's text.
  ordered_json in_content(const ordered_json& data) const {
    ordered_json reply{{"item_id", item_id_}, {"output_index", 0}, {"content_index", 0}};
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

  ordered_json item(const char* status, const Piece& piece) const {
    return {{"id", item_id_},
            {"type", "message"},
            {"status", status},
            {"role", "assistant"},
            {"content", ordered_json::array({text_part(piece)})}};
  }

  /// The response as it is.
  ///   finish_reason  empty: it is in progress
  ordered_json response(const std::string& finish_reason, ordered_json output,
                        const AnswerUsage& usage) const {
    const bool is_done = !finish_reason.empty();
    const GenerationOptions& options = request().options;
    const auto number = [](const auto& value) { return value ? ordered_json(*value) : ordered_json(); };
    ordered_json reply{{"id", id_},
                       {"object", "response"},
                       {"created_at", head().created},
                       {"status", !is_done                  ? "in_progress"
                                  : finish_reason == "stop" ? "completed"
                                                            : "incomplete"},
                       {"error", nullptr},
                       {"incomplete_details", nullptr},
                       {"instructions", nullptr},
                       {"max_output_tokens", number(options.gen_length)},
                       {"metadata", ordered_json::object()},
                       {"model", model().name},
                       {"output", std::move(output)},
                       {"parallel_tool_calls", false},
                       {"previous_response_id", nullptr},
                       {"store", false},
                       {"temperature", options.temperature.value_or(0)},
                       {"tool_choice", "none"},
                       {"tools", ordered_json::array()},
                       {"top_p", options.top_p.value_or(1)},
                       {"truncation", "disabled"},
                       {"usage", nullptr}};
    if (is_done && finish_reason != "stop") reply["incomplete_details"] = {{"reason", "max_output_tokens"}};
    if (is_done) {
      reply["usage"] = {{"input_tokens", usage.prompt_tokens},
                        {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
                        {"output_tokens", usage.answer_tokens},
                        {"output_tokens_details", {{"reasoning_tokens", 0}}},
                        {"total_tokens", usage.prompt_tokens + usage.answer_tokens}};
    }
    return reply;
  }

  std::string id_, item_id_;
  int64_t sequence_number_ = 0;
  Piece streamed_;  // the answer so far, of a stream
};

constexpr std::array<std::string_view, 1> kAnswerFormats = {"text"};

std::unique_ptr<ReplyFormat> make_format(AnswerHead head) {
  return std::make_unique<ResponsesFormat>(std::move(head));
}

}  // namespace
}  // namespace responses

const Dialect kOpenAiResponses{responses::fields,         false,
                               responses::kAnswerFormats, responses::parse,
                               responses::make_format,    openai_error};

}  // namespace lacuna
