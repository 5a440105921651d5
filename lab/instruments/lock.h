// The instrument of SureLock's Theorem 1. On a run without locks it measures the theorem's assumptions on
// every row's posteriors, and its error bound for the rows that a lock would have locked. Definitions and
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
/// Tokens less probable than this both at lock and at the end are excluded from LockedRow::likely_error.
inline constexpr double kMinLikely = 1e-4;

/// Quantities in the assumptions of Theorem 1, for one row from one pass to the next. D_s is KL(p_s ||
/// p_{s-1}) in nats, p_s the row's posterior at step s.
struct RowStep {
  int32_t request = 0;
  int32_t position = 0;    ///< relative to the answer; negative in the prompt
  int32_t step = 0;        ///< StepReport::step
  float divergence = 0;    ///< D_s
  float uncertainty = 0;   ///< 1 - max p_s
  bool converged = false;  ///< D_s <= eps
  bool confident = false;  ///< passes the gate
  bool locks = false;      ///< converged and confident, for the first time
  // NaN unless the row could lock in the previous pass too:
  float contraction = std::numeric_limits<float>::quiet_NaN();  ///< D_s / D_{s-1}, assumption A2
  float gain =
      std::numeric_limits<float>::quiet_NaN();  ///< max |ln p_s - ln p_{s-1}| / sqrt(D_{s-1}), A3 and A4
  /// Geometric mean of the last kContractionWindow contractions; NaN if there are fewer.
  float windowed_contraction = std::numeric_limits<float>::quiet_NaN();
};

/// The constants of the bound: error <= gain / (1 - sqrt(contraction)) * sqrt(D at lock).
struct TailConstants {
  double contraction = 0;  ///< rho
  double gain = 0;         ///< L_sm L

  /// Empty if contraction >= 1, for which the theorem gives no bound.
  std::optional<double> bound(double divergence) const;
};

/// A row that would have been locked, and the change of its posterior from then to the last pass.
struct LockedRow {
  int32_t request = 0;
  int32_t position = 0;   ///< relative to the answer; negative in the prompt
  int32_t step = 0;       ///< step of the lock
  double divergence = 0;  ///< D at lock
  double uncertainty = 0;
  int32_t steps_after = 0;  ///< passes from the lock to the end
  double error = 0;         ///< max over tokens of |ln p_T - ln p at lock|: the theorem's left-hand side
  double likely_error = 0;  ///< `error` over tokens with probability >= kMinLikely at lock or at the end
  TailConstants constants;  ///< largest values of this row after its lock; zeros if it locks in the last pass
};

struct LockFindings {
  SureLock settings;  ///< settings of the simulated lock
  std::vector<RowStep> steps;
  std::vector<LockedRow> locks;
};

/// Nearest-rank quantile of values without NaN, 0 <= share <= 1; NaN if there are none.
double quantile(std::vector<float>& values, double share);

/// Follows requests of masked diffusion that compute every row in every pass, and simulates the lock
/// `settings`. Throws InputError like follow(), and if the settings unlock rows, estimate eps (`delta`), or
/// need more memory than `most_bytes`.
LockFindings analyze_lock(const BackendModel& model, ThreadPool& threads, Requests requests,
                          const SureLock& settings, int64_t most_bytes,
                          const AnalysisProgress& progress = {});

/// Distributions in total, by step, position and divergence at lock, and bounds; `every_lock`: one row each.
nlohmann::ordered_json to_json(const LockFindings& findings, bool every_lock);

}  // namespace lacuna
