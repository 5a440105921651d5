// A request whose answer must be a text that an automaton accepts: JSON for a schema, a match of a regular
// expression, one of several texts. It wraps the decoder of any method and replaces what a pass samples, so
// schedules, thresholds, caches and locks stay as they are.
//
// What is committed is part of one complete accepted answer, a witness (constraint/witness.h): where the
// pass's own samples can be completed, they are the witness, and the run is bit for bit the one without a
// constraint; otherwise the rows are read once more by classes of tokens and the best accepted answer is
// found, or at a temperature sampled. So whatever a step commits, the rest stays possible within the canvas,
// and a finished answer is accepted.
//
// Source: a witness instead of tests on single tokens, as docs/methods/structured_output.md states it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "constraint/feasible.h"
#include "constraint/token_automaton.h"
#include "constraint/witness.h"
#include "decode/decoder_wrapper.h"
#include "model/token_classes.h"

namespace lacuna {

/// What a decoder's answer is held to.
struct AnswerConstraint {
  std::shared_ptr<const TokenAutomaton> automaton;
  int32_t gen_length = 0;  ///< positions of the answer
  uint64_t seed = 0;       ///< of the answers that are sampled at a temperature
  /// Whether an end token is the last that is committed (masked and block diffusion): a model likes to write
  /// them early, and each would shorten the answer.
  bool writes_ends_last = false;
};

class ConstrainedDecoder final : public DecoderWrapper {
 public:
  /// The decoder names its samples' positions (Decoder::sampled_positions), and its canvas can be completed.
  ConstrainedDecoder(std::unique_ptr<Decoder> inner, AnswerConstraint constraint);

  StepReport apply(const PassResult& result) override;
  FollowUp follow_up() const override;
  void apply_follow_up(const FollowUpResult& result, StepReport& report) override;

 private:
  /// A sample of a pass that the constraint has a say in.
  struct Sample {
    size_t index = 0;      ///< among the pass's samples
    int32_t position = 0;  ///< of the answer
    bool is_open = true;   ///< false: the position has its token, which stays
  };

  size_t place_of(int32_t position) const { return static_cast<size_t>(position - first_open_); }
  /// Sets window_ and constrained_: the positions from the first that is open to the last that is known or
  /// sampled.
  void open_window(std::span<const int32_t> sampled);
  /// Samples of positions that have their token become that token.
  void keep_written();
  /// What the sample would have its position hold.
  TokenId target_of(const Sample& sample) const;
  ConstrainedCanvas canvas_of(std::span<const TokenId> tokens) const;
  void ask_for_classes();
  Witness find_witness(std::span<const ClassStatistics> classes) const;
  /// Replaces the samples by the witness's tokens.
  void take(const Witness& witness);
  StepReport apply_samples();
  void apply_own_follow_up(const FollowUpResult& result, StepReport& report);
  /// At the end of a block whose tokens could all change until now: an accepted answer's, unless they are.
  void finish_block(IndexRange positions, std::span<TokenId> tokens);

  AnswerConstraint constraint_;
  TokenClasses classes_;  // of the automaton, and one more for tokens that are never written
  int32_t end_;           // one past the last position of the answer
  int32_t first_open_;    // the answer before it is final
  StateId state_ = TokenAutomaton::start();  // behind it
  int32_t num_passes_ = 0;

  // The pass in hand:
  std::vector<RowStatistics> samples_;
  std::vector<float> kv_drift_;
  StateSet start_;               // state_ alone
  std::vector<TokenId> window_;  // from first_open_ on; -1 where open
  std::vector<Sample> constrained_;
  std::vector<ClassRow> class_rows_;       // not empty: the pass waits for them
  std::vector<TokenId> targets_;           // window_ with the samples or the witness
  bool is_replaced_ = false;               // it is a witness
  std::vector<int32_t> constrained_rows_;  // of constrained_, if so
};

}  // namespace lacuna
