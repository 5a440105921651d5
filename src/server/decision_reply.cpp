#include "server/decision_reply.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/json.h"
#include "base/mapped_file.h"
#include "server/api_error.h"

namespace lacuna {
DecisionReply::DecisionReply(ReplyModel model, DecisionBody body,
                             std::shared_ptr<const PreparedDecision> prepared,
                             std::shared_ptr<HttpReply> reply, Metrics& metrics)
    : model_(std::move(model)),
      body_(std::move(body)),
      prepared_(std::move(prepared)),
      reply_(std::move(reply)),
      metrics_(metrics) {}

void DecisionReply::started(const Decoder& /*decoder*/, double queue_seconds) {
  metrics_.observe_queue(queue_seconds);
}

bool DecisionReply::stepped(const StepEvent& event) {
  metrics_.count_pass(event.statistics, statistics_);
  statistics_ = event.statistics;
  return true;
}

void DecisionReply::finished(const Decoder& decoder, const RunStatistics& statistics) {
  if (const std::optional<std::string> changed = find_changed_mapped_file())
    return failed(fmt::format("{} was changed while the server ran; restart the server", *changed));
  const DecideResult result = prepared_->result(decoder.measurements().readings(), statistics);
  metrics_.count_baseline(statistics.baseline);
  metrics_.count_tokens(static_cast<int32_t>(result.prompt_tokens), statistics.shared_tokens,
                        static_cast<int32_t>(result.answers.size()));
  metrics_.count_request("stop");
  reply_->record(
      {model_.name, static_cast<int32_t>(result.prompt_tokens), static_cast<int32_t>(result.answers.size())});
  metrics_.observe_request(clock_.seconds());
  reply_->send({200, "application/json"}, dump_json(decision_reply(body_, result, model_.name)));
}

void DecisionReply::failed(const std::string& sentence) {
  metrics_.count_request("failed");
  reply_->send({500, "application/json"}, dump_json(error_json(500, sentence)));
}

}  // namespace lacuna
