// One pass of a masked diffusion model over one canvas: which rows it computes, which logits it needs, and
// which rows lock afterwards. Decoders decide what is sampled and committed; everything else about a pass is
// here.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/rng.h"
#include "decode/cache_policy.h"
#include "decode/canvas.h"
#include "decode/decoder.h"
#include "decode/row_lock.h"
#include "decode/surelock.h"
#include "model/cost.h"
#include "model/plan.h"

namespace lacuna {

/// DPad (Chen et al. 2025, arXiv 2508.14148; Sitaoooo/DPad, sampler.py): a position d behind a block is
/// visible with probability scale * n(decay * d / (suffix - 1)), n the standard normal density, independently
/// of others and anew for each block; the last position is one of them.
struct SuffixDropout {
  double decay = 4;
  double scale = 2;

  bool operator==(const SuffixDropout&) const = default;
};

struct CanvasPassOptions {
  SamplingRule sampling;
  std::vector<SamplingRule> other_sampling;  ///< selected by PassRequests::rules
  float cfg_scale = 0;                       ///< classifier-free guidance; 0: none
  CachePolicy cache;
  std::optional<int32_t> suffix;  ///< visible positions after the block, besides the last one; none: all
  std::optional<SuffixDropout> suffix_dropout;  ///< of the `suffix` positions; none: all of them
  uint64_t seed = 0;                            ///< of suffix_dropout
  std::optional<SureLock> lock;
  int32_t prompt_block = 0;    ///< MaskedStrategy::prompt_block; 0: none
  int32_t verified_block = 0;  ///< length of a block whose tokens passes verify, without a lock; or 0
};

/// Requests to a pass besides the samples of its masks.
struct PassRequests {
  std::span<const int32_t> rules =
      {};  ///< [drawn positions] 0 is CanvasPassOptions::sampling, i > 0 other_sampling[i - 1]; empty: all 0
  /// Written positions of the block, ascending, whose tokens verifying masks score. Each position of the
  /// block gets an extra mask row, which sees the canvas without that position, and the other extra masks.
  std::span<const int32_t> verified = {};
  /// [drawn positions] tokens for RowStatistics::listed_logprobs; empty: none.
  std::span<const std::vector<TokenId>> listed = {};
  /// Positions, ascending, for which the two most likely tokens are returned.
  std::span<const int32_t> compared = {};
  /// Rows to compute, ascending, with the predictors of all others named here; empty: the cache policy's.
  std::span<const int32_t> computed = {};
  /// One past the last position that the pass computes and sees; none: all. Not with a suffix or a lock.
  std::optional<int32_t> end = {};
};

class CanvasPass {
 public:
  ///   most_positions  maximum length of a canvas that grows, without a lock; 0: fixed length
  CanvasPass(const CanvasPassOptions& options, const Canvas& canvas, int32_t most_positions = 0);

  /// 2 with classifier-free guidance: its unconditional sequence has its own K/V.
  int32_t num_sequences() const { return options_.cfg_scale > 0 ? 2 : 1; }
  /// The canvas, then scratch cells for probes of locked rows or for masks that verify.
  int32_t num_cells() const { return num_cells_; }
  bool remembers_outputs() const { return options_.lock.has_value(); }
  IndexRange kept_layers() const { return kept_layers_; }
  /// The prompt's blocks that are computed once, in the request's first pass.
  ExactPrefix exact_prefix() const { return {options_.prompt_block, once_end_, once_end_, num_kept_}; }
  /// See Decoder::skip_prefix().
  void skip_prefix(int32_t count) { num_kept_ = count; }

  /// Plans the next pass. plan().logits begin with `drawn_positions` in order (ascending; without a lock, a
  /// position may come twice). Then come the verified positions, with RowStatistics::scored_probability of
  /// their tokens, then the compared ones.
  ///   noise  random numbers of the sample at a position
  void prepare(const Canvas& canvas, const Block& block, std::span<const int32_t> drawn_positions,
               const std::function<RngStream(int32_t position)>& noise, const PassRequests& questions = {});
  const StepPlan& plan() const { return plan_; }
  /// The ranges of positions that a pass of the block sees, ascending and disjoint.
  std::vector<IndexRange> visible(const Canvas& canvas, const Block& block) const;

  /// Called after the pass, before its commits.
  void count_rows(Canvas& canvas);
  /// After the commits: chooses the rows whose drift is to be measured.
  ///   drawn  one sample for each of plan().logits
  void close_gate(const Canvas& canvas, std::span<const RowStatistics> drawn);
  std::span<const DriftProbe> drift_probes() const;
  /// Probes of the rows that predict these positions; the pass must compute these rows.
  std::vector<DriftProbe> posterior_probes(const Canvas& canvas, std::span<const int32_t> positions) const;
  /// Locks and unlocks rows by `drifts`, one for each of drift_probes().
  void apply_drift(const Canvas& canvas, std::span<const Drift> drifts, StepReport& report);

  /// Work of the pass if it computed every row of the canvas.
  PassWork uncached_work(const Canvas& canvas) const;

  /// Null without a lock that estimates its threshold.
  const DriftEstimate* drift_estimate() const {
    return lock_ && options_.lock->delta ? &lock_->estimate() : nullptr;
  }

 private:
  int32_t plan_row(int32_t position) const;
  LogitRow logit_row(int32_t plan_row) const;
  void add_rows(const Canvas& canvas, const Block& block, const std::vector<IndexRange>& seen,
                std::span<const int32_t> probes, std::span<const int32_t> verified);
  /// Adds the groups of rows_, which begin at row `first` of the plan.
  void add_groups(int32_t sequence, int32_t first, const std::vector<IndexRange>& seen);
  void add_verifying_masks(const Canvas& canvas, const Block& block, std::span<const int32_t> verified,
                           int32_t sequence);

  CanvasPassOptions options_;
  std::optional<RowLock> lock_;
  int32_t num_cells_ = 0;
  int32_t once_end_ = 0;  // end of the prompt's blocks that are computed once
  int32_t num_kept_ = 0;  // positions of these whose K/V are in their cells
  StepPlan plan_;
  std::vector<int32_t> rows_;  // positions computed, ascending; probes not included
  SparseAttention sparse_;     // of the rows in live_
  LayerReuse reuse_;
  IndexRange live_;
  IndexRange kept_layers_;
  size_t num_drawn_ = 0;
};

}  // namespace lacuna
