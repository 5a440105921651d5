// Lists alternatives of each committed token: the most likely tokens of the logits row from which it was
// sampled, in the pass that committed it. Wraps any decoder with sampled_positions(), requests the
// alternatives of committed rows in a follow-up, and does not change the answer.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "decode/decoder_wrapper.h"

namespace lacuna {

class AlternativesDecoder final : public FollowUpWrapper {
 public:
  /// `inner` must be constrainable.
  ///   count  alternatives per position, at least 1
  AlternativesDecoder(std::unique_ptr<Decoder> inner, int32_t count);

  StepReport apply(const PassResult& result) override;

 protected:
  FollowUp own_follow_up() const override { return {.logits = wanted_}; }
  /// Fills StepReport::alternatives.
  void apply_own_follow_up(const FollowUpResult& result, StepReport& report) override;
  void apply_inner_follow_up(const FollowUpResult& result, StepReport& report) override;

 private:
  /// Once the wrapped decoder has no follow-up: requests the logits rows of its committed tokens.
  void ask_for_alternatives(StepReport& report);

  int32_t count_;
  // The current pass:
  std::vector<int32_t> positions_;  // positions sampled by the first rows of logits
  std::vector<LogitRow> sampled_;   // [positions_.size()]
  std::vector<LogitRow> wanted_;    // requested rows; not empty: the pass waits for them
  std::vector<size_t> commits_;     // [wanted_.size()] index into StepReport::committed
};

}  // namespace lacuna
