// Decisions as requests: from questions to a decoder that shares passes with others, and from what it read to
// answers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

#include "engine/decision.h"
#include "engine/decision_canvas.h"
#include "engine/inference_session.h"

namespace lacuna {

struct DecideResult {
  std::vector<DecisionAnswer> answers;  ///< of the request's questions, in order
  /// Raw readings of each question, before temperatures and means: log-probabilities in the order of its
  /// options.
  std::vector<std::vector<std::vector<double>>> logprobs;
  int64_t prompt_tokens = 0;  ///< read, all prompts together
  DecisionTemperatures temperatures;
  RunStatistics statistics;
};

/// A prepared request. Its decoder runs once, in any engine.
class PreparedDecision {
 public:
  /// Lays out the questions. Throws InputError if the model has no tokenizer, and for a request that cannot
  /// be answered.
  PreparedDecision(const OpenedModel& opened, DecideRequest request);

  /// The first call's; there is none afterwards.
  std::unique_ptr<Decoder> take_decoder() { return std::move(decoder_); }
  const DecideRequest& request() const { return request_; }
  int64_t prompt_tokens() const { return prompt_tokens_; }

  /// Converts the readings of a finished decoder into answers.
  DecideResult result(std::span<const SlotReading> readings, const RunStatistics& statistics) const;

 private:
  DecideRequest request_;
  DecisionTemperatures temperatures_;
  std::vector<SlotSource> sources_;
  int64_t prompt_tokens_ = 0;
  std::unique_ptr<Decoder> decoder_;
};

/// Answers from what was read of each question, `logprobs` as DecideResult has them, first of the given order
/// of options and then of the reverse where there are both, each from as many draws.
DecisionAnswer answer_of(const DecisionQuestion& question, std::span<const std::vector<double>> logprobs,
                         bool both_orders, double temperature);

/// Asks and waits. Errors of PreparedDecision come before the first pass.
///   done  called from the session's thread as each request is answered, with how many were     stop  ends
///   the call early, with Cancelled
std::vector<DecideResult> decide_all(InferenceSession& session, std::span<const DecideRequest> requests,
                                     const std::function<void(size_t done)>& done = {},
                                     const std::stop_token& stop = {});
DecideResult decide(InferenceSession& session, const DecideRequest& request,
                    const std::stop_token& stop = {});

}  // namespace lacuna
