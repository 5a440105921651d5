// SureLock on the passes over one canvas: what a lock asks of a pass, and which rows lock afterwards. Masked
// diffusion locks rows of its whole canvas, block diffusion those of the block that is denoised.
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

  /// Begins with another canvas of the same length, of which no row is locked. Estimates are kept.
  void restart(const Canvas& canvas, int32_t first_cell);

  /// Scratch cells that the probes of one pass take.
  int32_t num_scratch_cells() const;
  bool is_locked(int32_t row) const { return table_.is_locked(row); }
  /// Leaves the rows that are not locked.
  void remove_locked(std::vector<int32_t>& rows) const { table_.remove_locked(rows); }
  /// Locked rows that a pass computes once more, in scratch cells; ascending.
  std::vector<int32_t> rows_to_probe(const Canvas& canvas) const { return table_.rows_to_probe(canvas); }

  /// Rows of the canvas that a pass computes, ascending.
  struct PassRows {
    std::vector<int32_t> rows;    ///< not locked
    std::vector<int32_t> probes;  ///< of rows_to_probe()
    int32_t first_row = 0;        ///< row of the plan for rows[0]; the others follow, then the probes
  };

  /// Rows of the last watch().
  std::span<const int32_t> rows() const { return rows_; }
  /// Adds the logits to the plan from which the gate is closed. Its logits so far sample the canvas's
  /// `sampled_positions` (ascending), by its rules.
  ///   may_lock  nothing stale can hide a change of a row; otherwise the pass neither locks nor unlocks
  ///   logit_of  the logits of a row of the plan, without rule and noise
  void watch(const Canvas& canvas, PassRows pass, bool may_lock, std::span<const int32_t> sampled_positions,
             const std::function<LogitRow(int32_t plan_row)>& logit_of, StepPlan& plan);
  /// After the commits of the pass: chooses the rows whose drift is measured.
  ///   samples  one for each of the plan's logits
  void close_gate(const Canvas& canvas, std::span<const RowStatistics> samples);
  std::span<const DriftProbe> drift_probes() const { return drift_probes_; }
  /// With what was measured, one for each of drift_probes(): locks and unlocks rows, and reports their
  /// positions.
  void apply_drift(const Canvas& canvas, std::span<const Drift> drifts, StepReport& report);

  const DriftEstimate& estimate() const { return table_.estimate(); }

 private:
  struct Watched {
    int32_t row;    // of the canvas
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
  std::vector<int32_t> measured_;         // their rows
  size_t num_gated_ = 0;
};

}  // namespace lacuna
