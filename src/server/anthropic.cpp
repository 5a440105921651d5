// Anthropic's Messages: POST /v1/messages.
#include <fmt/format.h>

#include <array>
#include <utility>

#include "server/dialect.h"
#include "tokenizer/unicode.h"

namespace lacuna {
namespace anthropic {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

void read_messages(const FieldValue& field, GenerationRequest& request) {
  if (!field.value.is_array() || field.value.empty()) field.refuse("a list of at least one message");
  std::vector<Message> messages;
  for (size_t i = 0; i < field.value.size(); ++i) {
    const FieldValue item{fmt::format("{}.{}", field.place, i), field.value[i]};
    const json* role = find_value(item.object(), "role");
    const json* content = find_value(item.object(), "content");
    if (role == nullptr || content == nullptr) item.refuse("\"role\" and \"content\"");
    if (*role != "user" && *role != "assistant") item.at("role").refuse("\"user\" or \"assistant\"");
    messages.push_back({role->get<std::string>(), text_of_content(item.at("content"), kTextPart)});
  }
  if (messages.back().role == "assistant") {
    throw FieldError(field.place,
                     "messages end with the assistant's; this server continues no message, "
                     "expected the user's at the end");
  }
  request.prompts.emplace_back(std::move(messages));
}

/// Comes before the messages, and is read after them.
void read_system(const FieldValue& field, GenerationRequest& request) {
  auto& messages = std::get<std::vector<Message>>(request.prompts.front());
  messages.insert(messages.begin(), {"system", text_of_content(field, kTextPart)});
}

void read_stop_sequences(const FieldValue& field, GenerationRequest& request) {
  (void)field.list();
  read_stop_texts(field, request);
}

void read_thinking(const FieldValue& field, GenerationRequest& /*request*/) {
  const json* type = find_value(field.object(), "type");
  if (type == nullptr || *type != "disabled") field.refuse("type disabled; answers here have no thinking");
}

void read_output(const FieldValue& field, GenerationRequest& /*request*/) {
  (void)field.object();  // its format is read in the order of its keys (server/answer_format.h)
}

constexpr std::string_view kTexts =
    R"({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}]})";

constexpr RequestField kFields[] = {
    {"model", R"({"type": "string"})", "a model of this server"},
    {"messages", R"({"type": "array", "items": {"type": "object"}})",
     "messages of user and assistant, with text or blocks of text", read_messages, true},
    {"system", kTexts, "a system message before them", read_system},
    {"max_tokens", R"({"type": "integer", "minimum": 1})", "positions of the answer",
     as_setting<setting::kGenLength>, true},
    {"stop_sequences", R"({"type": "array", "items": {"type": "string"}})", "texts that end the answer",
     read_stop_sequences},
    {"temperature", R"({"type": "number"})", "0: the likeliest token", as_setting<setting::kTemperature>},
    {"top_p", R"({"type": "number"})", "without effect at temperature 0", as_setting<setting::kTopP>},
    {"top_k", R"({"type": "integer"})", "without effect at temperature 0", as_setting<setting::kTopK>},
    {"stream", R"({"type": "boolean"})", "events in the place of one object", read_stream},
    {"output_config", R"({"type": "object"})", "format: json_schema with a schema", read_output},
    {"output_format", R"({"type": "object"})", "type json_schema with a schema", read_output},
    {"metadata", R"({"type": "object"})", "without effect"},
    {"thinking", R"({"type": "object"})", "type disabled", read_thinking},
    {"tools", R"({"type": "array"})", "refused", refuse_field},
    {"mcp_servers", R"({"type": "array"})", "refused", refuse_field},
    {"container", R"({})", "refused", refuse_field},
};

RequestFields fields() {
  static const std::vector<RequestField> all = join({kFields, own_fields()});
  return all;
}

GenerationRequest parse(const json& body, const GenerationOptions& defaults) {
  return read_request(body, defaults, fields());
}

class MessagesFormat final : public ReplyFormat {
 public:
  explicit MessagesFormat(AnswerHead head) : ReplyFormat(std::move(head)), id_(new_answer_id("msg_")) {}

  ordered_json whole(AnswerChoices choices, const AnswerUsage& usage) override {
    const AnswerChoice& choice = *choices.front();
    ordered_json reply = message(usage);
    reply["content"].push_back({{"type", "text"}, {"text", choice.answer.text}});
    reply.update(stop_of(choice));
    reply["usage"]["output_tokens"] = usage.answer_tokens;
    reply["lacuna"] = own_part(choice, request());
    return reply;
  }

  std::string begin_stream(const AnswerUsage& usage) override {
    return event({{"type", "message_start"}, {"message", message(usage)}}) +
           event({{"type", "content_block_start"},
                  {"index", 0},
                  {"content_block", {{"type", "text"}, {"text", ""}}}});
  }

  std::string part(const AnswerPart& part) override {
    if (part.piece.text.empty()) return {};
    return event({{"type", "content_block_delta"},
                  {"index", 0},
                  {"delta", {{"type", "text_delta"}, {"text", part.piece.text}}}});
  }

  std::string end_stream(AnswerChoices choices, const AnswerUsage& usage) override {
    const AnswerChoice& choice = *choices.front();
    ordered_json counts = usage_of(usage);
    counts["output_tokens"] = usage.answer_tokens;
    return event({{"type", "content_block_stop"}, {"index", 0}}) +
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
    return {{"stop_reason", choice.finish_reason == "stop" ? "end_turn" : "max_tokens"},
            {"stop_sequence", nullptr}};
  }

  /// Tokens that were read are counted apart from those of the cache.
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
};

std::unique_ptr<ReplyFormat> make_format(AnswerHead head) {
  return std::make_unique<MessagesFormat>(std::move(head));
}

std::string_view error_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status < 500 ? "invalid_request_error" : "api_error";
  }
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
                                 anthropic::kAnswerFormats, anthropic::parse,
                                 anthropic::make_format,    anthropic_error};

}  // namespace lacuna
