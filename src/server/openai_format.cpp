#include "server/openai_format.h"

#include <utility>

#include "server/api_error.h"

namespace lacuna {
namespace {

using nlohmann::ordered_json;

std::string_view id_prefix(AnswerStyle style) {
  if (style == AnswerStyle::kChat) return "chatcmpl-";
  return style == AnswerStyle::kText ? "cmpl-" : "infill-";
}

void add_usage(ordered_json& reply, const AnswerUsage& usage) {
  reply["usage"] = {{"prompt_tokens", usage.prompt_tokens},
                    {"completion_tokens", usage.answer_tokens},
                    {"total_tokens", usage.prompt_tokens + usage.answer_tokens},
                    {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
  reply["timings"] = timings_of(usage);
}

/// Adds the members that llama.cpp's editors read: the text at the cursor, which a stream sends at its end.
void add_cursor(const AnswerChoice& choice, ordered_json& reply) {
  reply["content"] = choice.inserted;
  reply["stop"] = !choice.finish_reason.empty();
}

/// Adds the content and the calls of a whole message.
void add_message(const ToolReply& tools, ordered_json& message) {
  const std::span<const ToolCall> made = tools.calls();
  message["content"] =
      tools.content().empty() && !made.empty() ? ordered_json() : ordered_json(tools.content());
  if (made.empty()) return;
  ordered_json calls = ordered_json::array();
  for (size_t i = 0; i < made.size(); ++i) {
    const ordered_json function{{"name", made[i].name}, {"arguments", made[i].arguments}};
    calls.push_back({{"id", tools.id_of(i)}, {"type", "function"}, {"function", function}});
  }
  message["tool_calls"] = std::move(calls);
}

/// One delta: {"content"}, {"tool_calls": [{"index", "id", "type", "function": {"name",
/// "arguments": ""}}]} when a call begins, then {"tool_calls": [{"index", "function": {"arguments"}}]}.
ordered_json delta_of(const ToolReply& tools, const ToolCallReader::Piece& piece) {
  if (!piece.call) return {{"content", piece.text}};
  ordered_json call{{"index", *piece.call}};
  if (piece.name.empty()) {
    call["function"] = {{"arguments", piece.text}};
  } else {
    call["id"] = tools.id_of(*piece.call);
    call["type"] = "function";
    call["function"] = {{"name", piece.name}, {"arguments", ""}};
  }
  return {{"tool_calls", ordered_json::array({std::move(call)})}};
}

}  // namespace

OpenAiFormat::OpenAiFormat(AnswerStyle style, AnswerHead head)
    : ReplyFormat(std::move(head)), style_(style), id_(new_answer_id(id_prefix(style))) {}

ordered_json OpenAiFormat::envelope(bool is_chunk) const {
  const char* object = "text_completion";
  if (style_ == AnswerStyle::kChat) object = is_chunk ? "chat.completion.chunk" : "chat.completion";
  if (style_ == AnswerStyle::kInfill) object = is_chunk ? "infill.chunk" : "infill";
  return {{"id", id_},
          {"object", object},
          {"created", head().created},
          {"model", model().name},
          {"system_fingerprint", model().fingerprint}};
}

ordered_json OpenAiFormat::logprobs_json(const Piece& piece) const {
  if (style_ == AnswerStyle::kChat) {
    return {{"content", chat_logprobs(model(), piece.tokens)}, {"refusal", nullptr}};
  }
  const auto text = [&](TokenId token) { return model().text_of(std::span(&token, 1)); };
  ordered_json reply = ordered_json::object();
  for (const char* key :
       {"tokens", "token_logprobs", "top_logprobs", "text_offset", "ids", "steps", "orders"}) {
    reply[key] = ordered_json::array();
  }
  size_t offset = 0;
  for (const TokenRecord& record : piece.tokens) {
    const std::string token = text(record.token);
    reply["tokens"].push_back(token);
    reply["token_logprobs"].push_back(record.logprob ? ordered_json(*record.logprob) : ordered_json());
    ordered_json top = ordered_json::object();
    if (record.logprob) top[token] = *record.logprob;
    for (const auto& [other, logprob] : record.likeliest) top[text(other)] = logprob;
    // null: no logprob
    reply["top_logprobs"].push_back(top.empty() ? ordered_json() : std::move(top));
    reply["text_offset"].push_back(offset);
    reply["ids"].push_back(record.token);
    reply["steps"].push_back(record.step);
    reply["orders"].push_back(record.order);
    offset += token.size();
  }
  return reply;
}

ordered_json OpenAiFormat::message_json(const AnswerChoice& choice, const Piece& piece, bool is_chunk,
                                        bool is_first, const ordered_json& delta) {
  ordered_json message = ordered_json::object();
  if (!is_chunk || is_first) message["role"] = "assistant";
  if (!choice.tools) {
    if (!is_chunk || is_first || !piece.text.empty()) message["content"] = piece.text;
  } else if (!is_chunk) {
    add_message(*choice.tools, message);
  } else if (is_first) {
    message["content"] = nullptr;  // not yet known whether the answer has text
  } else if (!delta.is_null()) {
    message.update(delta);
  }
  return message;
}

ordered_json OpenAiFormat::choice_json(const AnswerChoice& choice, const Piece& piece, bool is_chunk,
                                       bool is_first, const ordered_json& delta) const {
  ordered_json reply{{"index", choice.index}};
  if (style_ == AnswerStyle::kChat) {
    reply[is_chunk ? "delta" : "message"] = message_json(choice, piece, is_chunk, is_first, delta);
  } else {
    reply["text"] = piece.text;
  }
  reply["logprobs"] = request().wants_logprobs ? logprobs_json(piece) : ordered_json();
  reply["finish_reason"] = choice.finish_reason.empty() ? ordered_json() : ordered_json(choice.finish_reason);
  return reply;
}

ordered_json OpenAiFormat::whole(AnswerChoices choices, const AnswerUsage& usage) {
  ordered_json reply = envelope(false);
  reply["choices"] = ordered_json::array();
  for (const AnswerChoice* choice : choices) {
    Piece piece = choice->answer;
    piece.tokens.insert(piece.tokens.begin(), choice->scores.begin(), choice->scores.end());
    ordered_json each = choice_json(*choice, piece, false, false);
    ordered_json own = own_part(*choice, request());
    if (request().events) own["events"] = choice->events;
    each["lacuna"] = std::move(own);
    reply["choices"].push_back(std::move(each));
  }
  add_usage(reply, usage);
  if (request().fills_cursor) add_cursor(*choices.front(), reply);
  return reply;
}

std::string OpenAiFormat::part(const AnswerPart& part) {
  const AnswerChoice& choice = part.choice;
  const Piece& piece = part.piece;
  const bool tells_tokens = request().wants_logprobs || request().wants_step_map;
  std::vector<ordered_json> deltas;
  for (const ToolCallReader::Piece& each : part.tool_pieces) deltas.push_back(delta_of(*choice.tools, each));
  const bool has_text = choice.tools ? !deltas.empty() : !piece.text.empty();
  const bool says_something = has_text || !part.event.is_null() || !choice.finish_reason.empty() ||
                              (part.is_first && style_ == AnswerStyle::kChat) ||
                              (tells_tokens && !piece.tokens.empty());
  if (!says_something) return {};
  std::string chunks;
  for (size_t i = 0; i + 1 < deltas.size(); ++i) {
    ordered_json chunk = envelope(true);
    chunk["choices"] = ordered_json::array(
        {{{"index", choice.index}, {"delta", deltas[i]}, {"logprobs", nullptr}, {"finish_reason", nullptr}}});
    chunks += sse(chunk);
  }
  ordered_json chunk = envelope(true);
  chunk["choices"] = ordered_json::array(
      {choice_json(choice, piece, true, part.is_first, deltas.empty() ? ordered_json() : deltas.back())});
  ordered_json own = ordered_json::object();
  if (!part.event.is_null()) own["event"] = part.event;
  if (request().wants_step_map && !piece.tokens.empty()) {
    own["tokens"] = ids_of(piece.tokens);
    own["step_map"] = steps_of(piece.tokens);
  }
  if (!choice.finish_reason.empty()) own["stats"] = stats_of(choice);
  if (!own.empty()) chunk["lacuna"] = std::move(own);
  if (part.usage && !request().include_usage) add_usage(chunk, *part.usage);
  if (request().fills_cursor) add_cursor(choice, chunk);
  return chunks + sse(chunk);
}

std::string OpenAiFormat::end_stream(AnswerChoices /*choices*/, const AnswerUsage& usage) {
  std::string end;
  if (request().include_usage) {
    ordered_json chunk = envelope(true);
    chunk["choices"] = ordered_json::array();
    add_usage(chunk, usage);
    end = sse(chunk);
  }
  return end + "data: [DONE]\n\n";
}

std::string OpenAiFormat::fail_stream(const std::string& sentence) {
  return sse(error_json(500, sentence)) + "data: [DONE]\n\n";
}

}  // namespace lacuna
