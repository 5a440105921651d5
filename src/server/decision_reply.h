// The reply to one decision request.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "engine/decide.h"
#include "engine/scheduler.h"
#include "server/http.h"
#include "server/metrics.h"
#include "server/reply_format.h"
#include "wire/decision_json.h"

namespace lacuna {

/// Sends the reply when the request's decoder is done.
class DecisionReply final : public RequestListener {
 public:
  ///   model    stays loaded until the reply is sent     metrics  must outlive the reply
  DecisionReply(ReplyModel model, DecisionBody body, std::shared_ptr<const PreparedDecision> prepared,
                std::shared_ptr<HttpReply> reply, Metrics& metrics);

  void started(const Decoder& decoder, double queue_seconds) override;
  bool stepped(const StepEvent& event) override;
  void finished(const Decoder& decoder, const RunStatistics& statistics) override;
  void failed(const std::string& sentence) override;
  void lost(const std::exception_ptr& /*error*/) noexcept override { reply_->abandon(); }

 private:
  ReplyModel model_;
  DecisionBody body_;
  std::shared_ptr<const PreparedDecision> prepared_;
  std::shared_ptr<HttpReply> reply_;
  Metrics& metrics_;
  RunStatistics statistics_;  // after the last pass
  Stopwatch clock_;
};

}  // namespace lacuna
