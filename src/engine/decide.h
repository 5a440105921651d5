// Decision requests: questions become a decoder that shares passes with other requests, and its label
// probabilities become answers.
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
  std::vector<DecisionAnswer> answers;  ///< [questions]
  /// [questions][readings][options]: raw log-probabilities, before temperatures and means.
  std::vector<std::vector<std::vector<double>>> logprobs;
  int64_t prompt_tokens = 0;  ///< sum over all prompts
  DecisionTemperatures temperatures;
  RunStatistics statistics;
};

/// A prepared request. Its decoder runs once.
class PreparedDecision {
 public:
  /// Lays out the questions. Throws InputError if the model has no tokenizer, and for a request that cannot
  /// be answered.
  PreparedDecision(const OpenedModel& opened, DecideRequest request);

  /// Moves the decoder out; later calls return null.
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

/// Computes one answer from its readings (DecideResult::logprobs). With both orders, the first half is in the
/// given order of options, the second in reverse.
DecisionAnswer answer_of(const DecisionQuestion& question, std::span<const std::vector<double>> logprobs,
                         bool both_orders, double temperature);

/// Answers requests and waits. Errors of PreparedDecision are thrown before the first pass.
///   done  called in the session's thread after each answer, with the number of answers so far
///   stop  ends the call early with Cancelled
std::vector<DecideResult> decide_all(InferenceSession& session, std::span<const DecideRequest> requests,
                                     const std::function<void(size_t done)>& done = {},
                                     const std::stop_token& stop = {});
DecideResult decide(InferenceSession& session, const DecideRequest& request,
                    const std::stop_token& stop = {});

}  // namespace lacuna
