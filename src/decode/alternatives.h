// A request whose steps also say what else their positions might have got: the likeliest tokens of the row
// that each committed token was sampled from, at the pass that committed it. It wraps the decoder of any
// method that names its samples' positions, asks for them in a follow-up, for the committed rows alone, and
// changes nothing about the answer.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "decode/decoder_wrapper.h"

namespace lacuna {

class AlternativesDecoder final : public AskingWrapper {
 public:
  /// The decoder is constrainable.
  ///   count  tokens of each position, at least 1
  AlternativesDecoder(std::unique_ptr<Decoder> inner, int32_t count);

  StepReport apply(const PassResult& result) override;

 protected:
  FollowUp own_follow_up() const override { return {.logits = wanted_}; }
  /// Fills StepReport::alternatives.
  void apply_own_follow_up(const FollowUpResult& result, StepReport& report) override;
  void apply_inner_follow_up(const FollowUpResult& result, StepReport& report) override;

 private:
  /// Once the wrapped decoder asks for nothing more: asks for the rows of what it committed.
  void ask_for_alternatives(StepReport& report);

  int32_t count_;
  // The current pass:
  std::vector<int32_t> positions_;  // positions that its first rows of logits sampled tokens for
  std::vector<LogitRow> sampled_;   // [positions_.size()]
  std::vector<LogitRow> wanted_;    // not empty: the pass waits for them
  std::vector<size_t> commits_;     // [wanted_.size()] index into StepReport::committed
};

}  // namespace lacuna
