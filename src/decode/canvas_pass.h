// One pass of a masked diffusion model over one canvas: which rows it computes, what is asked of them, and
// which of them lock afterwards. Decoders decide what is sampled and committed; everything else about a pass
// is here.
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

struct CanvasPassOptions {
  SamplingRule sampling;
  std::vector<SamplingRule> other_sampling;  ///< for positions that are sampled by another rule
  float cfg_scale = 0;                       ///< classifier-free guidance; 0: none
  CachePolicy cache;
  std::optional<int32_t>
      suffix;  ///< positions behind the block that a pass sees, and the last one; none: all
  std::optional<SureLock> lock;
  int32_t verified_block = 0;  ///< positions of a block whose tokens a pass may verify, without a lock; or 0
};

/// Questions to a pass, other than for the samples of its masks.
struct PassQuestions {
  std::span<const int32_t> rules =
      {};  ///< by which each position is sampled: 0 is CanvasPassOptions::sampling,
           ///< i > 0 other_sampling[i - 1]; empty: 0
  /// Positions of the block with a token, ascending, of which a mask next to it says how likely it is. Such a
  /// mask stands at each position of the block and sees the canvas but for its position, and the other masks.
  std::span<const int32_t> verified = {};
  /// Tokens whose probability at each drawn position is wanted (RowStatistics::listed_logprobs); empty: none.
  std::span<const std::vector<TokenId>> listed = {};
  /// Positions, ascending, of which the two likeliest tokens are wanted.
  std::span<const int32_t> compared = {};
  /// One past the last position that the pass computes and sees, without a suffix or a lock; none: all.
  std::optional<int32_t> end = {};
};

class CanvasPass {
 public:
  ///   most_positions  that the canvas may grow to, without a lock; 0: it keeps its length
  CanvasPass(const CanvasPassOptions& options, const Canvas& canvas, int32_t most_positions = 0);

  /// The unconditional sequence of classifier-free guidance keeps K/V of its own.
  int32_t num_sequences() const { return options_.cfg_scale > 0 ? 2 : 1; }
  /// The canvas, then scratch cells for probes of locked rows or for masks that verify.
  int32_t num_cells() const { return num_cells_; }
  bool remembers_outputs() const { return options_.lock.has_value(); }

  /// Plans the next pass. The first plan().logits are those of `drawn_positions` (ascending; without a lock,
  /// a position may come twice), in their order; then come the verified positions, whose
  /// RowStatistics::scored_probability is that of their token, and then those that are compared.
  ///   noise  what the sample at a position takes its random numbers from
  void prepare(const Canvas& canvas, const Block& block, std::span<const int32_t> drawn_positions,
               const std::function<RngStream(int32_t position)>& noise, const PassQuestions& questions = {});
  const StepPlan& plan() const { return plan_; }
  /// The positions that a pass of the block sees, ascending and apart.
  std::vector<IndexRange> visible(const Canvas& canvas, const Block& block) const;

  /// After the pass, before its commits.
  void count_rows(Canvas& canvas) const { canvas.count_pass(rows_); }
  /// After the commits: chooses the rows whose drift is to be measured.
  ///   drawn  one sample for each of plan().logits
  void close_gate(const Canvas& canvas, std::span<const RowStatistics> drawn);
  std::span<const DriftProbe> drift_probes() const;
  /// Probes of the rows that predict these positions, which the pass computes.
  std::vector<DriftProbe> posterior_probes(const Canvas& canvas, std::span<const int32_t> positions) const;
  /// With what was measured, one for each of drift_probes(): locks and unlocks.
  void apply_drift(const Canvas& canvas, std::span<const Drift> drifts, StepReport& report);

  /// The pass with every row of the canvas, sampling the same positions.
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
  /// Groups of the rows of rows_, which the plan has from `first` on.
  void add_groups(int32_t sequence, int32_t first, const std::vector<IndexRange>& seen);
  void add_verifying_masks(const Canvas& canvas, const Block& block, std::span<const int32_t> verified,
                           int32_t sequence);

  CanvasPassOptions options_;
  std::optional<RowLock> lock_;
  int32_t num_cells_ = 0;
  StepPlan plan_;
  std::vector<int32_t> rows_;  // positions computed, ascending; probes not included
  SparseAttention sparse_;     // of the rows of live_
  IndexRange live_;
  size_t num_drawn_ = 0;
};

}  // namespace lacuna
