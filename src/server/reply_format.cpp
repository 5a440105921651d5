#include "server/reply_format.h"

#include <fmt/format.h>

#include <atomic>
#include <ctime>

#include "base/json.h"
#include "engine/result.h"
#include "tokenizer/unicode.h"

namespace lacuna {
namespace {

using nlohmann::ordered_json;

double per_second(double count, double milliseconds) {
  return milliseconds > 0 ? 1e3 * count / milliseconds : 0;
}

/// The bytes of a token, which may be an incomplete character.
ordered_json bytes_of(const ReplyModel& model, TokenId token) {
  ordered_json list = ordered_json::array();
  if (model.tokenizer() == nullptr) return list;
  for (const char byte : model.tokenizer()->decode(std::span(&token, 1))) {
    list.push_back(static_cast<unsigned char>(byte));
  }
  return list;
}

}  // namespace

std::string ReplyModel::text_of(std::span<const TokenId> tokens) const {
  return tokenizer() == nullptr ? std::string() : replace_ill_formed(tokenizer()->decode(tokens));
}

std::string new_answer_id(std::string_view prefix) {
  static std::atomic<uint64_t> count{0};
  return fmt::format("{}{:x}{:08x}", prefix, std::time(nullptr), count++);
}

std::string sse(const ordered_json& data, std::string_view event) {
  const std::string name = event.empty() ? "" : fmt::format("event: {}\n", event);
  return name + "data: " + dump_json(data) + "\n\n";
}

ordered_json chat_logprobs(const ReplyModel& model, std::span<const TokenRecord> tokens) {
  const auto text = [&](TokenId token) { return model.text_of(std::span(&token, 1)); };
  ordered_json list = ordered_json::array();
  for (const TokenRecord& record : tokens) {
    ordered_json likeliest = ordered_json::array();
    for (const auto& [token, logprob] : record.likeliest) {
      likeliest.push_back(
          {{"token", text(token)}, {"logprob", logprob}, {"bytes", bytes_of(model, token)}, {"id", token}});
    }
    list.push_back({{"token", text(record.token)},
                    {"logprob", record.logprob ? ordered_json(*record.logprob) : ordered_json()},
                    {"bytes", bytes_of(model, record.token)},
                    {"top_logprobs", std::move(likeliest)},
                    {"id", record.token},
                    {"step", record.step},
                    {"order", record.order}});
  }
  return list;
}

ordered_json ids_of(std::span<const TokenRecord> tokens) {
  ordered_json ids = ordered_json::array();
  for (const TokenRecord& record : tokens) ids.push_back(record.token);
  return ids;
}

ordered_json steps_of(std::span<const TokenRecord> tokens) {
  ordered_json steps = ordered_json::array();
  for (const TokenRecord& record : tokens) steps.push_back(record.step);
  return steps;
}

ordered_json stats_of(const AnswerChoice& choice) {
  ordered_json stats = to_json(choice.statistics);
  stats["cached_tokens"] = choice.statistics.shared_tokens;
  stats["seconds"] = choice.statistics.seconds;
  return stats;
}

ordered_json own_part(const AnswerChoice& choice, const GenerationRequest& request) {
  ordered_json own{{"tokens", ids_of(choice.answer.tokens)}, {"stats", stats_of(choice)}};
  if (request.wants_step_map) own["step_map"] = steps_of(choice.answer.tokens);
  return own;
}

ordered_json timings_of(const AnswerUsage& usage) {
  const int32_t read = usage.prompt_tokens - usage.cached_tokens;
  return {{"prompt_n", read},
          {"prompt_ms", usage.prompt_ms},
          {"prompt_per_second", per_second(read, usage.prompt_ms)},
          {"predicted_n", usage.answer_tokens},
          {"predicted_ms", usage.answer_ms},
          {"predicted_per_second", per_second(usage.answer_tokens, usage.answer_ms)},
          {"cache_n", usage.cached_tokens}};
}

}  // namespace lacuna
