// A decoder whose canvas tests write themselves, and the events of its steps.
#pragma once

#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "decode/decoder.h"
#include "engine/engine.h"

namespace lacuna::test {

/// Holds what observers of a step look at; plans and computes nothing.
class WrittenCanvas : public Decoder {
 public:
  std::vector<TokenId> tokens;
  int32_t num_prompt = 0;
  int32_t final_tokens = 0;  ///< num_final(): tokens of the answer that no later step changes

  int32_t num_sequences() const override { return 1; }
  int32_t num_cells() const override { return static_cast<int32_t>(tokens.size()); }
  bool done() const override { return false; }
  const StepPlan& plan() override { throw std::logic_error("a written canvas has no plan"); }
  PassWork uncached_work() const override { return {}; }
  StepReport apply(const PassResult& /*result*/) override { return {}; }
  std::span<const TokenId> canvas() const override { return tokens; }
  int32_t prompt_length() const override { return num_prompt; }
  int32_t num_final() const override { return final_tokens; }
  IndexRange block() const override { return {num_prompt, static_cast<int32_t>(tokens.size())}; }
  StopReason stop_reason() const override { return StopReason::kLength; }
};

/// One step of a written canvas: set the members, then pass event() to an observer.
struct WrittenStep {
  StepPlan plan = {};
  StepReport report = {};
  RunStatistics statistics = {};
  StepCost cost = {};
  double seconds = 0;

  StepEvent event(const Decoder& decoder) const {
    return {0, decoder, plan, report, statistics, cost, nullptr, seconds};
  }
};

}  // namespace lacuna::test
