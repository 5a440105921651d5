// The instrument of SureLock's Theorem 1: on a run that locks nothing, what the theorem assumes of every
// row's posteriors, and what its bound says of the rows that a lock would have taken. Definitions and
// decisions: docs/methods/surelock.md, "The instrument".
//
// The decoder computes every row in every pass and writes the same text as without this instrument.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <vector>

#include "base/threads.h"
#include "decode/surelock.h"
#include "instruments/instruments.h"

namespace lacuna {

/// Steps that a windowed contraction spans.
inline constexpr int32_t kContractionWindow = 8;
/// Memory that a program may spend on logits, in bytes.
inline constexpr int64_t kMaxLogits = int64_t{16} << 30;
/// Tokens that are less probable than this, at lock and at the end, are left out of LockedRow::likely_error.
inline constexpr double kMinLikely = 1e-4;

/// Quantities in the assumptions of Theorem 1, for one row from one pass to the next. D_s = KL(p_s ||
/// p_{s-1}) in nats.
struct RowStep {
  int32_t request = 0;
  int32_t position = 0;    ///< of the row in the answer; negative in the prompt
  int32_t step = 0;        ///< StepReport::step
  float divergence = 0;    ///< D_s
  float uncertainty = 0;   ///< 1 - max p_s
  bool converged = false;  ///< D_s <= eps
  bool confident = false;  ///< passes the gate
  bool locks = false;      ///< both, for the first time
  // Where the row could lock in the pass before as well, else NaN:
  float contraction = std::numeric_limits<float>::quiet_NaN();  ///< D_s / D_{s-1}, assumption A2
  float gain =
      std::numeric_limits<float>::quiet_NaN();  ///< max |ln p_s - ln p_{s-1}| / sqrt(D_{s-1}), A3 and A4
  /// Geometric mean of kContractionWindow contractions; NaN where the row has fewer.
  float windowed_contraction = std::numeric_limits<float>::quiet_NaN();
};

/// The constants of the bound: error <= gain / (1 - sqrt(contraction)) * sqrt(D at lock).
struct TailConstants {
  double contraction = 0;  ///< rho
  double gain = 0;         ///< L_sm L

  /// Empty where contraction >= 1, and the theorem says nothing.
  std::optional<double> bound(double divergence) const;
};

/// A row that the lock would have taken, and how far its posterior moved from there to the last pass.
struct LockedRow {
  int32_t request = 0;
  int32_t position = 0;   ///< of the row in the answer; negative in the prompt
  int32_t step = 0;       ///< of the lock
  double divergence = 0;  ///< D at lock
  double uncertainty = 0;
  int32_t steps_after = 0;  ///< passes from the lock to the end
  double error = 0;         ///< max over tokens of |ln p_T - ln p at lock|: the theorem's left-hand side
  double likely_error = 0;  ///< the same over tokens of at least kMinLikely in either
  TailConstants
      constants;  ///< the largest of the row itself after its lock; zeros where it locks in the last pass
};

struct LockFindings {
  SureLock settings;  ///< of the lock that is tried
  std::vector<RowStep> steps;
  std::vector<LockedRow> locks;
};

/// Nearest-rank quantile of values without NaN, 0 <= share <= 1; NaN of none.
double quantile(std::vector<float>& values, double share);

/// Follows requests of masked diffusion that compute every row in every pass, and tries `settings` on them.
/// InputErrors as follow(), and where settings unlock, estimate eps (`delta`), or need more memory than
/// `most_bytes`.
LockFindings analyze_lock(const BackendModel& model, ThreadPool& threads, Requests requests,
                          const SureLock& settings, int64_t most_bytes,
                          const AnalysisProgress& progress = {});

/// Distributions, by step, by position, by divergence at lock, bounds; with `every_lock` a row for each lock.
nlohmann::ordered_json to_json(const LockFindings& findings, bool every_lock);

}  // namespace lacuna
