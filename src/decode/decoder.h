// One request being decoded.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "decode/baseline_request.h"
#include "kernels/attention.h"
#include "lacuna/types.h"
#include "model/cost.h"
#include "model/drift.h"
#include "model/pass_result.h"
#include "model/plan.h"
#include "model/sampling.h"

namespace lacuna {

struct DriftEstimate;

/// The longest answer, and the largest number of steps, passes or positions that a setting counts.
inline constexpr int32_t kMaxGenLength = 1 << 20;

/// Result of one forward pass for one slot (ReFusion).
struct SlotReport {
  int32_t position = 0;               ///< position of the slot's first token
  bool selected = false;              ///< a plan: whether it is written next
  int32_t accepted = 0;               ///< leading tokens that are accepted
  std::vector<TokenId> tokens;        ///< a plan: the first draft; otherwise accepted tokens, then drafts
  std::vector<double> probabilities;  ///< one for each token
};

/// New masks on a canvas that grows.
struct InsertedMasks {
  int32_t position = 0;  ///< position of the first new mask after the step
  int32_t count = 0;

  bool operator==(const InsertedMasks&) const = default;
};

/// Edits of a step that change the length of a canvas, in the order in which they are applied. What is
/// appended at the canvas's end is not among it.
struct CanvasEdits {
  std::vector<int32_t> dropped = {};         ///< positions before the step, ascending
  std::vector<InsertedMasks> inserted = {};  ///< ascending

  bool empty() const { return dropped.empty() && inserted.empty(); }
};

/// A change of a canvas's length that a sample or a rule asks for: these positions give way to `tokens`, of
/// which negative ones are masks.
struct CanvasEdit {
  IndexRange positions;
  std::vector<TokenId> tokens = {};
};

/// Tokens that a position might have got instead, the likeliest first, with their logprobs.
using Alternatives = std::vector<std::pair<TokenId, double>>;

/// Effect of one forward pass on one request. Positions of a canvas that the step edits are those after it,
/// except for what was dropped and for the rows of the plan.
struct StepReport {
  int32_t step = 0;               ///< 0-based; counts the decoder's steps, those that needed no pass included
  int32_t block = 0;              ///< 0-based
  std::string_view kind;          ///< "denoise"; "draft", "verify" with a guide; "prefill", "decode"; "plan",
                                  ///< "verify", "predict", "check", "fill", "recompute" of slots; "decide"
  std::vector<Commit> committed;  ///< ascending positions
  std::vector<int32_t> locked;    ///< positions, ascending: computed no more from the next pass on
  std::vector<int32_t> unlocked;  ///< positions, ascending
  std::vector<TokenId> canvas_in = {};  ///< tokens that a pass over a canvas was fed (DiffusionGemma)
  CanvasEdits edits = {};
  /// [committed.size()] where they were asked for (decode/alternatives.h), else empty.
  std::vector<Alternatives> alternatives = {};
  // Slots (ReFusion):
  int32_t iteration = 0;          ///< 0-based; each begins with a plan
  int32_t round = 0;              ///< 0-based, of a completion
  std::vector<SlotReport> slots;  ///< ascending positions
};

/// Which of a request's models a pass runs on.
enum class ModelRole : uint8_t {
  kMain,
  kGuide,  ///< the autoregressive model that confirms what the main model drafts
};

/// The first positions of a request whose K/V depend on nothing but the tokens of their blocks and of those
/// before: bit for bit the same in every request with these tokens. A position's cell has its number.
struct ExactPrefix {
  int32_t block_length = 0;  ///< 1: left to right; 0: there are no such positions
  int32_t wanted = 0;        ///< positions whose K/V may come from another request
  int32_t promised = 0;      ///< positions whose K/V will lie in their cells once the prompt is read
  int32_t kept = 0;          ///< positions whose K/V lie in their cells
};

/// How likely the model finds a token.
struct TokenScore {
  /// Natural logarithm, by the model's raw logits; -infinity for a probability of 0; none for given tokens.
  std::optional<double> logprob;
  std::optional<std::pair<TokenId, double>> best;  ///< the most likely token there and its logprob
};

/// Distribution over the labels of one slot.
struct SlotReading {
  /// Natural logarithms of the probabilities of the place's labels, by the model's raw logits over its whole
  /// vocabulary; -infinity for a probability of 0.
  std::vector<double> logprobs;

  bool operator==(const SlotReading&) const = default;
};

/// The part of a decoder that a constraint on the answer works with (decode/constrained.h).
class Constrainable {
 public:
  virtual ~Constrainable() = default;

  /// The positions for which the first of plan()'s logits sample a token, in their order; until apply().
  /// Empty where none is sampled, or the decoder's answers cannot be constrained; -1 of rows that measure
  /// something else.
  virtual std::vector<int32_t> sampled_positions() const { return {}; }
  /// The positions for which follow_up().logits sample tokens; empty: the pass has sampled them before.
  virtual std::vector<int32_t> follow_up_positions() const { return {}; }
  /// Where the samples of the pass are judgements from left to right: for each of sampled_positions() the
  /// draft that the sample judges, -1 where there is no draft. Consecutive positions are a run, of which the
  /// tokens up to and with the first draft that is not accepted count. Empty: the pass judges nothing.
  virtual std::vector<TokenId> judged_drafts() const { return {}; }
  /// Whether a draft is accepted; otherwise the judge's own token replaces it.
  virtual bool accepts(const RowStatistics& /*judge*/, TokenId /*draft*/) const { return false; }
  /// Whether the answer is made of RowStatistics::best_token; else of `token`.
  virtual bool commits_best_tokens() const { return false; }
  /// Decoders that may change every token of a block until its end call this with the tokens that it ends
  /// with, which may be replaced.
  using FinishBlock = std::function<void(IndexRange positions, std::span<TokenId> tokens)>;
  virtual void finish_blocks_with(FinishBlock /*finish*/) {}
  /// Decoders that write tokens which no pass of the main model sampled for their position (a guide's) write
  /// those alone for which this is true.
  using AllowsToken = std::function<bool(int32_t position, TokenId token)>;
  virtual void write_only_with(AllowsToken /*allows*/) {}
  /// The edit that a token stands for at a position, if it changes the canvas's length instead of being
  /// written.
  virtual std::optional<CanvasEdit> edit_of(int32_t /*position*/, TokenId /*token*/) const { return {}; }
  /// Decoders whose canvas changes its length while it is denoised make those edits alone for which this is
  /// true.
  using AllowsEdit = std::function<bool(const CanvasEdit& edit)>;
  virtual void edit_only_with(AllowsEdit /*allows*/) {}
  /// Writes tokens at the answer's first positions that are not final, between two passes. The answer does
  /// not end with them. False: the method writes nothing without a pass.
  virtual bool write_given(std::span<const Commit> /*tokens*/) { return false; }
};

/// The part of a decoder that instruments and results read, besides its passes.
class Measurements {
 public:
  virtual ~Measurements() = default;

  /// Inputs of the request's uncached baseline, with the current length of the answer. Empty for decoders
  /// without a baseline, such as those that measure a likelihood.
  virtual std::optional<BaselineRequest> baseline_request() const { return {}; }
  /// Denoising steps of the whole request if every block takes as many as were asked for; 0 for methods
  /// without blocks.
  virtual int32_t planned_steps() const { return 0; }
  /// Likelihood of each token of the canvas; complete once done(). Empty for decoders that write an answer.
  virtual std::span<const TokenScore> scores() const { return {}; }
  /// Readings of the slots of a decision, in order; complete once done(). Empty for other decoders.
  virtual std::span<const SlotReading> readings() const { return {}; }
  /// Estimates of a lock with an estimated threshold; null without one.
  virtual const DriftEstimate* drift_estimate() const { return nullptr; }
};

/// A state machine: plan(), a forward pass, apply(), and apply_follow_up() where there is more to ask, until
/// done(). engine/pass_loop.h drives it. A plan numbers the request's own sequences from 0 and its rows from
/// 0; whoever runs several requests appends their plans.
class Decoder {
 public:
  virtual ~Decoder() = default;

  /// K/V stores the request needs (2 with classifier-free guidance), each of num_cells() cells.
  virtual int32_t num_sequences() const = 0;
  virtual int32_t num_cells() const = 0;

  /// Cells of the guide's K/V store; 0: no guide.
  virtual int32_t num_guide_cells() const { return 0; }
  /// Whether the main model's passes must remember their rows' outputs, for FollowUp::probes.
  virtual bool remembers_outputs() const { return false; }

  virtual bool done() const = 0;
  /// Which model the next pass needs.
  virtual ModelRole role() const { return ModelRole::kMain; }
  /// K/V of the main model that requests may share.
  virtual ExactPrefix exact_prefix() const { return {}; }
  /// The K/V of the first `count` positions lie in their cells now: whole blocks, at most those wanted.
  /// Before the first plan().
  virtual void skip_prefix(int32_t /*count*/) {}
  /// The next pass. Only while not done(). The same until apply(); what was returned stays as it is
  /// until the next call.
  virtual const StepPlan& plan() = 0;
  /// Work of the pass that plan() describes, without any cache or lock.
  virtual PassWork uncached_work() const = 0;
  /// The plan of the same pass without a cache, for instruments that compare the two. Empty for methods that
  /// have no such plan.
  virtual std::optional<StepPlan> uncached_plan() const { return {}; }

  /// Work of a constraint on the answer in the pass, about, in steps of a Budget; 0 without one. It is done
  /// in apply() and apply_follow_up(), which charge the thread's Budget.
  virtual int64_t constraint_steps() const { return 0; }

  /// Takes the results of the pass over plan(): commits tokens and moves on to the next pass.
  virtual StepReport apply(const PassResult& result) = 0;
  /// After apply(): what else is wanted of the rows of its pass, now that its samples are known. Asked again
  /// after each apply_follow_up(), until it is empty.
  virtual FollowUp follow_up() const { return {}; }
  /// Takes the results of follow_up() and completes the report. Called where follow_up() is not empty, and
  /// after every pass of the main model where remembers_outputs().
  virtual void apply_follow_up(const FollowUpResult& /*result*/, StepReport& /*report*/) {}

  /// Null: the decoder's answers cannot be constrained.
  virtual Constrainable* constrainable() { return nullptr; }
  /// Empty values where the decoder measures nothing.
  virtual const Measurements& measurements() const;

  /// Prompt, then the positions to generate (for an autoregressive model: those generated so far).
  virtual std::span<const TokenId> canvas() const = 0;
  virtual int32_t prompt_length() const = 0;
  /// How many tokens of the answer, from its first on, nothing will change any more.
  virtual int32_t num_final() const = 0;
  /// The token that a position of the answer has and that the current pass keeps; -1: the pass may give it
  /// one.
  virtual TokenId held_token(int32_t position) const {
    return position - prompt_length() < num_final() ? canvas()[static_cast<size_t>(position)] : -1;
  }
  /// Positions that are denoised now; the last ones that were, once done().
  virtual IndexRange block() const = 0;
  /// Where the holes of an infill are by now, on a canvas that changes its length; empty: they stay as they
  /// were laid out.
  virtual std::span<const IndexRange> holes() const { return {}; }
  /// Meaningful once done().
  virtual StopReason stop_reason() const = 0;
};

inline const Measurements& Decoder::measurements() const {
  static const Measurements kNothing;
  return kNothing;
}

}  // namespace lacuna
