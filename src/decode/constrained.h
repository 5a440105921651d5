// Constrained decoding: an automaton must accept the answer (JSON for a schema, a match of a regular
// expression, one of several texts). Wraps the decoder of any method and replaces samples of a pass, so
// schedules, thresholds, caches and locks stay as they are.
//
// Committed tokens are always part of a complete accepted answer, a witness (constraint/witness.h). Samples
// that can be completed to one stay as they are, bit for bit. Otherwise the pass's rows are reduced to
// probabilities of token classes, and the best witness is found, or sampled at a temperature above 0. So
// after every step the canvas can be completed, and a finished answer is accepted.
//
// If the canvas changes its length, the answer must be completable at the current length, and only edits that
// keep it completable are made.
//
// If a pass judges drafts from left to right (autoregressive decoding without drafts, Nemotron's
// self-speculation, ReFusion's slots), each judgment is limited to tokens that may follow the accepted ones.
//
// docs/methods/structured_output.md explains the method.
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
  int32_t gen_length = 0;                   ///< positions of the answer, on a canvas of fixed length
  bool changes_length = false;              ///< the answer must fit the canvas's current length
  StateId start = TokenAutomaton::start();  ///< state before the answer, after an infill's prefix
  bool only_text = false;                   ///< no end tokens, as ConstrainedCanvas::only_text
  uint64_t seed = 0;                        ///< seed of sampled witnesses
  /// Whether end tokens are committed last (masked and block diffusion, slots): models tend to write them
  /// early, which would shorten the answer.
  bool writes_ends_last = false;
  std::function<std::vector<TokenId>(std::string_view)> encode_literal = {};  ///< see DecoderContext
};

/// The automaton's classes as a partition of the vocabulary, with one more class at the end for tokens that
/// are never written.
TokenClasses classes_of(const TokenAutomaton& automaton);

/// Log-probabilities that a row of logits gives each class of an automaton, normalized over the whole
/// vocabulary.
class RowScores {
 public:
  ///   row  [num_classes + 1], one for each class of classes_of()
  RowScores(std::span<const ClassStatistics> row, size_t num_classes, float temperature);

  ClassScores view() const { return {tokens_, logprobs_, lse_, {}}; }
  /// Probability of a token with this logit, normalized over `allowed` classes, which must contain the token.
  double probability_among(const ClassSet& allowed, float logit) const;

 private:
  std::vector<TokenId> tokens_;
  std::vector<float> logprobs_, lse_;
  double scale_;        // factor of logits: 1 / temperature
  double log_sum_ = 0;  // log-sum-exp over all classes
};

class ConstrainedDecoder final : public FollowUpWrapper {
 public:
  /// `inner` must be constrainable and its canvas completable.
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

  /// A sample at a position of the answer.
  struct Sample {
    size_t index = 0;      ///< index into samples_
    int32_t position = 0;  ///< canvas position, within the answer
    bool is_open = true;   ///< false: the position has its token, which stays
    TokenId draft = -1;    ///< drafted token that the sample judges; -1: none
    bool is_edit = false;  ///< the sample asks for an edit that is allowed
  };

  size_t place_of(int32_t position) const { return static_cast<size_t>(position - first_open_); }
  /// Sets samples_, rows_, constrained_ and the window.
  void begin_samples(std::span<const RowStatistics> samples, std::span<const LogitRow> rows,
                     std::span<const int32_t> positions, std::span<const TokenId> drafts);
  /// Sets window_: the positions from the first that is not final to the last that is held or sampled.
  void open_window();
  /// At positions that already have a token, replaces the sample by that token.
  void keep_held();
  /// Sets targets_: window_ with the tokens that the samples would write.
  void set_targets();
  /// The token that the sample would write at its position.
  TokenId target_of(const Sample& sample) const;
  ConstrainedCanvas canvas_of(std::span<const TokenId> tokens) const;
  /// Whether the samples can be completed to an accepted answer; otherwise requests class statistics.
  bool are_possible();
  Witness find_witness(std::span<const ClassStatistics> classes) const;
  /// Replaces the samples by the witness's tokens.
  void take(const Witness& witness);
  /// Limits judgments to tokens that the constraint allows, from left to right within each run.
  void judge(std::span<const ClassStatistics> classes);
  /// The best or a sampled token of one position, given the window before it.
  Witness choose_token(const FeasibleSets& sets, const Sample& sample, const ClassScores& scores) const;
  const SamplingRule& rule_of(const Sample& sample) const;
  bool is_random(const Sample& sample) const;
  StepReport apply_samples();
  /// If the step is complete, writes the tokens of text that must come next, up to the free positions.
  void write_literal(StepReport& report);
  /// Called when a block ends whose tokens could all change: replaces them by targets_ if they are not
  /// completable.
  void finish_block(IndexRange positions, std::span<TokenId> tokens);
  bool allows(int32_t position, TokenId token);
  bool allows(const CanvasEdit& edit);
  /// Sets is_edit of the samples. Returns whether every edit that they ask for is allowed; true without
  /// edits.
  bool find_edits();
  /// Feasible sets of window_.
  const FeasibleSets& sets_of_window();

  AnswerConstraint constraint_;
  TokenClasses classes_;  // classes_of() the automaton
  int32_t end_;           // one past the last position of the answer
  int32_t first_open_;    // the answer before it is final
  StateId state_;         // state before first_open_
  int32_t num_passes_ = 0;

  // The current pass:
  const StepPlan* plan_ = nullptr;  // plan of the wrapped decoder
  std::vector<float> kv_drift_;
  std::vector<double> rollout_;
  bool in_follow_up_ = false;                // the samples are those of a follow-up of the wrapped decoder
  bool judges_ = false;                      // the samples judge drafts
  std::vector<RowStatistics> samples_;       // samples of the pass or the follow-up
  std::vector<LogitRow> rows_;               // [samples_]
  StateSet start_;                           // the set of state_ alone
  std::vector<TokenId> window_;              // from first_open_ on; -1 where open
  std::optional<FeasibleSets> window_sets_;  // feasible sets of edit_window_, for checking edits
  std::vector<TokenId> edit_window_;
  StateId edit_state_ = kNoState;  // state before edit_window_
  std::vector<Sample> constrained_;
  std::vector<ClassRow> class_rows_;       // not empty: the pass waits for them
  std::vector<TokenId> targets_;           // window_ with the samples or the witness
  bool is_replaced_ = false;               // targets_ is a witness
  int32_t replaced_end_ = 0;               // with is_replaced_: where the witness's text ends
  std::vector<int32_t> constrained_rows_;  // with is_replaced_: plan rows of constrained_
};

}  // namespace lacuna
