// SureLock on the passes over one canvas: which logits a lock needs of a pass, and which rows lock
// afterwards. Masked diffusion locks rows of its whole canvas, block diffusion rows of the current block.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "decode/canvas.h"
#include "decode/decoder.h"
#include "decode/surelock.h"
#include "model/plan.h"

namespace lacuna {

class RowLock {
 public:
  ///   first_cell  cell and position of the canvas's row 0
  RowLock(const SureLock& settings, const Canvas& canvas, int32_t first_cell = 0);

  /// Begins another canvas of the same length with no locked rows. Estimates are kept.
  void restart(const Canvas& canvas, int32_t first_cell);

  /// Scratch cells for the probes of one pass.
  int32_t num_scratch_cells() const;
  bool is_locked(int32_t row) const { return table_.is_locked(row); }
  /// Removes the locked rows from `rows`.
  void remove_locked(std::vector<int32_t>& rows) const { table_.remove_locked(rows); }
  /// Locked rows that a pass computes once more, in scratch cells; ascending.
  std::vector<int32_t> rows_to_probe(const Canvas& canvas) const { return table_.rows_to_probe(canvas); }

  /// Rows of the canvas that a pass computes, ascending.
  struct PassRows {
    std::vector<int32_t> rows;    ///< not locked
    std::vector<int32_t> probes;  ///< rows of rows_to_probe()
    int32_t first_row = 0;        ///< row of the plan for rows[0]; the others follow, then the probes
  };

  /// Rows of the last watch().
  std::span<const int32_t> rows() const { return rows_; }
  /// Adds to the plan the logits that close_gate() needs. The plan's logits so far must sample the canvas's
  /// `sampled_positions` (ascending).
  ///   may_lock  no stale K/V can hide a change of a row; false: the pass neither locks nor unlocks
  ///   logit_of  the logits of a row of the plan, without rule and noise
  void watch(const Canvas& canvas, PassRows pass, bool may_lock, std::span<const int32_t> sampled_positions,
             const std::function<LogitRow(int32_t plan_row)>& logit_of, StepPlan& plan);
  /// After the commits of the pass: chooses the rows whose drift is measured.
  ///   samples  one for each of the plan's logits
  void close_gate(const Canvas& canvas, std::span<const RowStatistics> samples);
  std::span<const DriftProbe> drift_probes() const { return drift_probes_; }
  /// Locks and unlocks rows by `drifts`, one for each of drift_probes(), and reports their positions.
  void apply_drift(const Canvas& canvas, std::span<const Drift> drifts, StepReport& report);

  const DriftEstimate& estimate() const { return table_.estimate(); }

 private:
  struct Watched {
    int32_t row;    // row of the canvas
    size_t sample;  // index into the samples of the pass
    LogitRow logit;
  };

  std::vector<int32_t> positions(std::vector<int32_t> rows) const;

  LockTable table_;
  int32_t length_;
  int32_t first_cell_;
  std::vector<int32_t> rows_;  // computed by the pass, without probes
  std::vector<Watched> judged_;
  std::vector<Watched> probed_;
  std::vector<DriftProbe> drift_probes_;  // of the rows that passed the gate, then of the unsure probes
  std::vector<int32_t> measured_;         // rows of drift_probes_
  size_t num_gated_ = 0;
};

}  // namespace lacuna
