// A request whose answer must be a text that an automaton accepts: JSON for a schema, a match of a regular
// expression, one of several texts. It wraps the decoder of any method and replaces what a pass samples, so
// schedules, thresholds, caches and locks stay as they are.
//
// Committed tokens are part of one complete accepted answer, a witness (constraint/witness.h): where the
// pass's own samples can be completed, they are the witness, and the run is bit for bit the one without a
// constraint; otherwise the rows are read once more by classes of tokens and the best accepted answer is
// found, or at a temperature sampled. So whatever a step commits, the rest stays possible within the canvas,
// and a finished answer is accepted.
//
// Where the canvas changes its length, what has to be possible is an answer of its present length, and of
// the edits that a decoder would make those alone are made that leave one possible.
//
// Where a pass judges drafts from left to right instead (autoregressive decoding without drafts, Nemotron's
// self-speculation, ReFusion's slots), each judgement is the model's among the tokens that are possible
// after what was accepted before it.
//
// Source: a witness instead of tests on single tokens, as docs/methods/structured_output.md states it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "constraint/feasible.h"
#include "constraint/token_automaton.h"
#include "constraint/witness.h"
#include "decode/decoder_wrapper.h"
#include "model/token_classes.h"

namespace lacuna {

/// Constraint on a decoder's answer.
struct AnswerConstraint {
  std::shared_ptr<const TokenAutomaton> automaton;
  int32_t gen_length = 0;       ///< positions of the answer, where the canvas keeps its length
  bool changes_length = false;  ///< the canvas does, and what it has at a pass is what an answer has to fit
  StateId start = TokenAutomaton::start();  ///< before the answer; an infill's text begins before it
  bool only_text = false;                   ///< no position ends the answer, as ConstrainedCanvas::only_text
  uint64_t seed = 0;                        ///< of the answers that are sampled at a temperature
  /// Whether an end token is the last that is committed (masked and block diffusion, slots): a model likes to
  /// write them early, and each would shorten the answer.
  bool writes_ends_last = false;
  std::function<std::vector<TokenId>(std::string_view)> encode_literal = {};  ///< DecoderContext's
};

/// The automaton's classes as a partition of the vocabulary: one more class, the last, has the tokens that
/// are never written.
TokenClasses classes_of(const TokenAutomaton& automaton);

/// Log-probabilities that a row of logits gives each class of an automaton, normalized over the whole
/// vocabulary.
class RowScores {
 public:
  ///   row  of classes_of(): num_classes and the one of tokens that are never written
  RowScores(std::span<const ClassStatistics> row, size_t num_classes, float temperature);

  ClassScores view() const { return {tokens_, logprobs_, lse_, {}}; }
  /// Probability of a token with this logit among some classes, which hold the token.
  double probability_among(const ClassSet& allowed, float logit) const;

 private:
  std::vector<TokenId> tokens_;
  std::vector<float> logprobs_, lse_;
  double scale_;        // of logits
  double log_sum_ = 0;  // of all classes
};

class ConstrainedDecoder final : public AskingWrapper {
 public:
  /// The decoder is constrainable, and its canvas can be completed.
  ConstrainedDecoder(std::unique_ptr<Decoder> inner, AnswerConstraint constraint);

  StepReport apply(const PassResult& result) override;
  /// Edges of the automaton times open positions.
  int64_t constraint_steps() const override;

 protected:
  FollowUp own_follow_up() const override { return {.classes = class_rows_}; }
  void apply_own_follow_up(const FollowUpResult& result, StepReport& report) override;
  void apply_inner_follow_up(const FollowUpResult& result, StepReport& report) override;

 private:
  Constrainable& answer() const { return *inner().constrainable(); }

  /// A sample that the constraint has a say in.
  struct Sample {
    size_t index = 0;      ///< among samples_
    int32_t position = 0;  ///< of the answer
    bool is_open = true;   ///< false: the position has its token, which stays
    TokenId draft = -1;    ///< drafted token that the sample judges; -1: none
    bool is_edit = false;  ///< the sample changes the canvas's length, and may
  };

  size_t place_of(int32_t position) const { return static_cast<size_t>(position - first_open_); }
  /// Sets samples_, rows_, constrained_ and the window.
  void begin_samples(std::span<const RowStatistics> samples, std::span<const LogitRow> rows,
                     std::span<const int32_t> positions, std::span<const TokenId> drafts);
  /// Sets window_: the positions from the first that is not final to the last that is held or sampled.
  void open_window();
  /// Samples of positions that have their token become that token.
  void keep_held();
  /// Sets targets_: the window with what the samples would have its positions hold.
  void set_targets();
  /// The token that the sample would write at its position.
  TokenId target_of(const Sample& sample) const;
  ConstrainedCanvas canvas_of(std::span<const TokenId> tokens) const;
  /// Whether the samples are possible as they are; otherwise asks for classes.
  bool are_possible();
  Witness find_witness(std::span<const ClassStatistics> classes) const;
  /// Replaces the samples by the witness's tokens.
  void take(const Witness& witness);
  /// Replaces judgements by those of the same model held to the constraint, run by run from left to right.
  void judge(std::span<const ClassStatistics> classes);
  /// The best or a sampled token of one position, given the window before it.
  Witness choose_token(const FeasibleSets& sets, const Sample& sample, const ClassScores& scores) const;
  const SamplingRule& rule_of(const Sample& sample) const;
  bool is_random(const Sample& sample) const;
  StepReport apply_samples();
  /// Writes the tokens of a text that must come next, as many as fit, if the step is complete.
  void write_literal(StepReport& report);
  /// At the end of a block whose tokens could all change until now: an accepted answer's, unless they are.
  void finish_block(IndexRange positions, std::span<TokenId> tokens);
  bool allows(int32_t position, TokenId token);
  bool allows(const CanvasEdit& edit);
  /// Sets is_edit of the samples. Returns whether every edit that they ask for is allowed; true without
  /// edits.
  bool find_edits();
  /// The sets of the window as it is.
  const FeasibleSets& sets_of_window();

  AnswerConstraint constraint_;
  TokenClasses classes_;  // of the automaton, and one more for tokens that are never written
  int32_t end_;           // one past the last position of the answer
  int32_t first_open_;    // the answer before it is final
  StateId state_;         // after it
  int32_t num_passes_ = 0;

  // The current pass:
  const StepPlan* plan_ = nullptr;  // the wrapped decoder's
  std::vector<float> kv_drift_;
  bool in_follow_up_ = false;                // the samples are those of a follow-up of the wrapped decoder
  bool judges_ = false;                      // the samples judge drafts
  std::vector<RowStatistics> samples_;       // of the pass or the follow-up
  std::vector<LogitRow> rows_;               // [samples_]
  StateSet start_;                           // state_ alone
  std::vector<TokenId> window_;              // from first_open_ on; -1 where open
  std::optional<FeasibleSets> window_sets_;  // feasible sets of edit_window_, for checking edits
  std::vector<TokenId> edit_window_;
  StateId edit_state_ = kNoState;  // before it
  std::vector<Sample> constrained_;
  std::vector<ClassRow> class_rows_;       // not empty: the pass waits for them
  std::vector<TokenId> targets_;           // window_ with the samples or the witness
  bool is_replaced_ = false;               // it is a witness
  int32_t replaced_end_ = 0;               // if so, the position at which its text ends
  std::vector<int32_t> constrained_rows_;  // rows of constrained_, if it is set
};

}  // namespace lacuna
