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

/// Maximum length of an answer, and maximum number of steps, passes or positions of a setting.
inline constexpr int32_t kMaxGenLength = 1 << 20;

/// Result of one forward pass for one slot (ReFusion).
struct SlotReport {
  int32_t position = 0;               ///< position of the slot's first token
  bool selected = false;              ///< in a plan: whether the slot is written next
  int32_t accepted = 0;               ///< leading tokens that are accepted
  std::vector<TokenId> tokens;        ///< in a plan: the first draft; else accepted tokens, then drafts
  std::vector<double> probabilities;  ///< one for each token
};

/// New masks on a canvas that grows.
struct InsertedMasks {
  int32_t position = 0;  ///< position of the first new mask after the step
  int32_t count = 0;

  bool operator==(const InsertedMasks&) const = default;
};

/// Edits of a step that change the length of a canvas, in the order in which they are applied. Tokens
/// appended at the end of the canvas are not listed.
struct CanvasEdits {
  std::vector<int32_t> dropped = {};         ///< positions before the step, ascending
  std::vector<InsertedMasks> inserted = {};  ///< ascending

  bool empty() const { return dropped.empty() && inserted.empty(); }
};

/// A requested change of the canvas's length: `tokens` replace these positions; negative tokens are masks.
struct CanvasEdit {
  IndexRange positions;
  std::vector<TokenId> tokens = {};
};

/// The most likely tokens of a position with their logprobs, in descending order.
using Alternatives = std::vector<std::pair<TokenId, double>>;

/// Effect of one forward pass on one request. If the step edits the canvas, positions are those after the
/// edits, except for `edits.dropped` and the plan's rows.
struct StepReport {
  int32_t step = 0;               ///< 0-based; counts the decoder's steps, those that needed no pass included
  int32_t block = 0;              ///< 0-based
  std::string_view kind;          ///< "denoise"; "draft", "verify" with a guide; "prefill", "decode"; "plan",
                                  ///< "verify", "predict", "check", "fill", "recompute" of slots; "decide"
  std::vector<Commit> committed;  ///< ascending positions
  std::vector<int32_t> locked;    ///< positions, ascending; not computed from the next pass on
  std::vector<int32_t> unlocked;  ///< positions, ascending
  std::vector<TokenId> canvas_in = {};  ///< input tokens of the pass, of models with canvases
  CanvasEdits edits = {};
  /// [committed.size()] if requested (decode/alternatives.h), else empty.
  std::vector<Alternatives> alternatives = {};
  // Slots (ReFusion):
  int32_t iteration = 0;          ///< 0-based; each begins with a plan
  int32_t round = 0;              ///< 0-based, within a completion
  std::vector<SlotReport> slots;  ///< ascending positions
};

/// Which of a request's models a pass runs on.
enum class ModelRole : uint8_t {
  kMain,
  kGuide,  ///< the second model: it confirms what the main model drafts, or drafts for it
};

/// The prefix of a request whose K/V depend only on the tokens of each block and of the blocks before it:
/// bitwise identical in every request with these tokens. A position's cell has the same index.
struct ExactPrefix {
  int32_t block_length = 0;  ///< 1: causal; 0: no such prefix
  int32_t wanted = 0;        ///< positions whose K/V may come from another request
  int32_t promised = 0;      ///< positions whose K/V are in their cells once the prompt is computed
  int32_t kept = 0;          ///< positions whose K/V are in their cells now
};

/// Likelihood of a token under the model.
struct TokenScore {
  /// Natural logarithm, by the model's raw logits; -infinity for a probability of 0; none for given tokens.
  std::optional<double> logprob;
  std::optional<std::pair<TokenId, double>> best;  ///< the most likely token there and its logprob
};

/// Distribution over the labels of one slot.
struct SlotReading {
  /// Natural logarithms of the labels' probabilities, by the model's raw logits over its whole vocabulary;
  /// -infinity for a probability of 0.
  std::vector<double> logprobs;

  bool operator==(const SlotReading&) const = default;
};

/// Abilities of the main model's backend that a request needs, besides plain passes.
struct BackendNeeds {
  bool remembers_outputs = false;  ///< the outputs of rows are remembered, for FollowUp::probes
  bool keeps_attention = false;    ///< plans may have SparseAttention::keeps()
  bool evicts_masks = false;       ///< plans may have MaskEviction
  bool wants_rollout = false;      ///< plans may have RowGroup::wants_rollout
  IndexRange kept_layers = {};     ///< cells whose rows keep what layers add to them (LayerReuse)
};

/// The interface of a decoder that a constraint on the answer uses (decode/constrained.h).
class Constrainable {
 public:
  virtual ~Constrainable() = default;

  /// The positions that the first of plan()'s logits sample, in order; valid until apply(). -1 for rows that
  /// measure something else. Empty if none is sampled or answers cannot be constrained.
  virtual std::vector<int32_t> sampled_positions() const { return {}; }
  /// The positions that follow_up().logits sample; empty: the pass has already sampled them.
  virtual std::vector<int32_t> follow_up_positions() const { return {}; }
  /// If the pass judges drafts from left to right: for each of sampled_positions() the draft that its sample
  /// judges, -1 without a draft. Consecutive positions form a run, which ends with the first rejected draft.
  /// Empty: the pass judges nothing.
  virtual std::vector<TokenId> judged_drafts() const { return {}; }
  /// Whether a draft is accepted; otherwise the judge's own token replaces it.
  virtual bool accepts(const RowStatistics& /*judge*/, TokenId /*draft*/) const { return false; }
  /// Whether RowStatistics::best_token is committed; else RowStatistics::token.
  virtual bool commits_best_tokens() const { return false; }
  /// Decoders that may change any token of a block until it ends call this with its final tokens, which the
  /// function may replace.
  using FinishBlock = std::function<void(IndexRange positions, std::span<TokenId> tokens)>;
  virtual void finish_blocks_with(FinishBlock /*finish*/) {}
  /// Decoders that write tokens not sampled by the main model (a guide's) write only those for which this is
  /// true.
  using AllowsToken = std::function<bool(int32_t position, TokenId token)>;
  virtual void write_only_with(AllowsToken /*allows*/) {}
  /// The edit that a token stands for at a position, if it changes the canvas's length instead of being
  /// written.
  virtual std::optional<CanvasEdit> edit_of(int32_t /*position*/, TokenId /*token*/) const { return {}; }
  /// Decoders whose canvas changes its length make only the edits for which this is true.
  using AllowsEdit = std::function<bool(const CanvasEdit& edit)>;
  virtual void edit_only_with(AllowsEdit /*allows*/) {}
  /// Writes tokens, which do not end the answer, at its first positions that are not final; called between
  /// passes. Returns false if the method writes nothing without a pass.
  virtual bool write_given(std::span<const Commit> /*tokens*/) { return false; }
};

/// Figures of a decoder for instruments and results, besides its passes.
class Measurements {
 public:
  virtual ~Measurements() = default;

  /// Inputs of the request's uncached baseline, with the current length of the answer. Empty for decoders
  /// without a baseline, such as those that measure a likelihood.
  virtual std::optional<BaselineRequest> baseline_request() const { return {}; }
  /// Denoising steps of the whole request if every block takes the requested number; 0 for methods without
  /// blocks.
  virtual int32_t planned_steps() const { return 0; }
  /// Likelihood of each token of the canvas; complete once done(). Empty for decoders that write an answer.
  virtual std::span<const TokenScore> scores() const { return {}; }
  /// Label distributions of a decision's slots, in order; complete once done(). Empty for other decoders.
  virtual std::span<const SlotReading> readings() const { return {}; }
  /// Estimates of a lock with an estimated threshold; null without one.
  virtual const DriftEstimate* drift_estimate() const { return nullptr; }
};

/// A state machine: plan(), a forward pass, apply(), and apply_follow_up() while follow_up() is not empty,
/// until done(). engine/pass_loop.h drives it. A plan numbers the request's sequences and rows from 0; a
/// batch appends the plans of its requests.
class Decoder {
 public:
  virtual ~Decoder() = default;

  /// K/V stores the request needs (2 with classifier-free guidance), each of num_cells() cells.
  virtual int32_t num_sequences() const = 0;
  virtual int32_t num_cells() const = 0;

  /// Cells of the guide's K/V store; 0: no guide.
  virtual int32_t num_guide_cells() const { return 0; }
  /// Fixed for the whole request.
  virtual BackendNeeds needs() const { return {}; }

  virtual bool done() const = 0;
  /// Which model the next pass needs.
  virtual ModelRole role() const { return ModelRole::kMain; }
  /// K/V of the main model that requests may share.
  virtual ExactPrefix exact_prefix() const { return {}; }
  /// Called before the first plan() if the K/V of the first `count` positions are in their cells: whole
  /// blocks, at most ExactPrefix::wanted.
  virtual void skip_prefix(int32_t /*count*/) {}
  /// The next pass; requires !done(). Calls return the same plan until apply(). The reference is valid until
  /// the next call.
  virtual const StepPlan& plan() = 0;
  /// Work of the pass that plan() describes, without any cache or lock.
  virtual PassWork uncached_work() const = 0;
  /// The plan of the same pass without a cache, for instruments that compare the two. Empty for methods
  /// without such a plan.
  virtual std::optional<StepPlan> uncached_plan() const { return {}; }

  /// Approximate work of a constraint in the pass, in steps of a Budget; 0 without one. apply() and
  /// apply_follow_up() do this work and charge the thread's Budget.
  virtual int64_t constraint_steps() const { return 0; }

  /// Takes the results of the pass over plan(): commits tokens and moves on to the next pass.
  virtual StepReport apply(const PassResult& result) = 0;
  /// After apply(): further logits or probes of the pass's rows, now that its samples are known. Called again
  /// after each apply_follow_up(), until it is empty.
  virtual FollowUp follow_up() const { return {}; }
  /// Takes the results of follow_up() and completes the report. Called if follow_up() is not empty, and after
  /// every pass of the main model if needs().remembers_outputs.
  virtual void apply_follow_up(const FollowUpResult& /*result*/, StepReport& /*report*/) {}

  /// Null: the decoder's answers cannot be constrained.
  virtual Constrainable* constrainable() { return nullptr; }
  /// Default values if the decoder measures nothing.
  virtual const Measurements& measurements() const;

  /// Prompt, then the positions to generate (for an autoregressive model: those generated so far).
  virtual std::span<const TokenId> canvas() const = 0;
  virtual int32_t prompt_length() const = 0;
  /// Number of leading tokens of the answer that are final.
  virtual int32_t num_final() const = 0;
  /// The token of an answer's position that the current pass keeps; -1: the pass may write the position.
  virtual TokenId held_token(int32_t position) const {
    return position - prompt_length() < num_final() ? canvas()[static_cast<size_t>(position)] : -1;
  }
  /// Positions that are denoised now; once done(), the last ones that were.
  virtual IndexRange block() const = 0;
  /// Current positions of an infill's holes on a canvas that changes its length; empty: they have not moved.
  virtual std::span<const IndexRange> holes() const { return {}; }
  /// Meaningful once done().
  virtual StopReason stop_reason() const = 0;
};

inline const Measurements& Decoder::measurements() const {
  static const Measurements kNothing;
  return kNothing;
}

}  // namespace lacuna
