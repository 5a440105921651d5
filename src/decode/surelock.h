// SureLock: a row whose posterior has converged is no longer computed; other rows still attend to its K/V.
//
// Algorithm 1 of "Stopping computation for converged tokens in masked diffusion-LM decoding".
// docs/methods/surelock.md lists the decisions that the paper leaves open. A lock filters the rows of any
// cache policy.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "decode/canvas.h"

namespace lacuna {

struct SureLock {
  double eps = 5e-4;  ///< a row locks at KL(p_t || p_{t-1}) <= eps, in nats; 0: never
  /// Theorem 1 inverted: the largest change of a final log-probability that a lock may cause, in nats. The
  /// threshold then follows from it and from constants estimated while decoding; until they give one, it is
  /// `eps`.
  std::optional<double> delta;
  double gate = 20;     ///< percent of the population that passes, the most confident first; 100: no gate
  int32_t min_age = 1;  ///< passes that must have computed the token's row, this one included
  bool gate_counts_unlocked = false;  ///< the population is every computed row, masked ones included
  bool eager_prompt = false;          ///< rows of the prompt need not pass the gate

  // Appendix H:
  int32_t unlock_every = 0;          ///< probe locked rows every this many passes; 0: a lock is final
  int32_t probes = 32;               ///< locked rows per probe
  std::optional<double> unlock_eps;  ///< KL(probe || at lock) above this unlocks; default 10 * eps
  int32_t min_locked_passes = 4;     ///< passes that a lock holds at least
  int32_t cooldown = 4;              ///< passes before an unlocked row may lock again
  double strictness = 0.5;           ///< an unlocked row locks again at KL <= strictness * eps

  bool operator==(const SureLock&) const = default;
};

/// Divergences below this, in nats, are rounding noise of f32 logits: errors of 1e-6 in log-probabilities
/// give a divergence of about half their square. Ratios with a smaller divisor are left out.
inline constexpr double kMinDivergence = 1e-12;

/// Estimates from fewer samples, or with a contraction of kMaxContraction or more, give no threshold.
inline constexpr int64_t kMinDriftSamples = 64;
inline constexpr double kMaxContraction = 0.99;

/// Online estimates of Theorem 1's constants, from rows whose drift was measured in two passes in a row.
struct DriftEstimate {
  int64_t samples = 0;
  double contraction = 0;  ///< rho: 95th percentile of D_s / D_{s-1}
  double gain = 0;         ///< G: 95th percentile of max |change of log p| / sqrt(D_{s-1})
  double eps = 0;          ///< threshold in use; SureLock::eps until the estimates give one
};

/// Which rows of one request are locked.
class LockTable {
 public:
  LockTable(const SureLock& settings, const Canvas& canvas);

  /// Begins another canvas of the same length: no row is locked or has a posterior. Estimates are kept.
  void restart();

  bool is_locked(int32_t row) const { return state(row).locked; }
  int32_t num_locked() const { return num_locked_; }
  /// Removes the locked rows from `rows`.
  void remove_locked(std::vector<int32_t>& rows) const;

  /// The rows of the next pass whose certainty (largest probability) close_gate() needs, given the positions
  /// that the pass may commit.
  std::vector<int32_t> rows_to_judge(const Canvas& canvas, std::span<const int32_t> rows,
                                     std::span<const int32_t> drawn_positions) const;
  /// Locked rows that the next pass probes, ascending.
  std::vector<int32_t> rows_to_probe(const Canvas& canvas) const;

  /// After the commits of a pass: the judged rows that may lock now and pass the gate, ascending.
  ///   certainties  the largest probability of each row in `judged`
  std::vector<int32_t> close_gate(const Canvas& canvas, std::span<const int32_t> judged,
                                  std::span<const double> certainties);
  /// Whether a probe's certainty is low enough to unlock, by the gate of the last close_gate().
  bool is_unsure(double certainty) const { return 1 - certainty > gate_; }

  struct RowDrift {
    int32_t row = 0;
    double kl = 0;              ///< from the row's last posterior; for probes, from the one at lock
    double max_log_change = 0;  ///< largest change of a log-probability
  };
  /// Locks those of close_gate()'s rows that have converged; returns them, ascending.
  std::vector<int32_t> lock(const Canvas& canvas, std::span<const RowDrift> drifts);
  /// Unlocks probed rows that moved. `unsure` are the drifts of the `probed` rows with is_unsure().
  std::vector<int32_t> unlock(const Canvas& canvas, std::span<const int32_t> probed,
                              std::span<const RowDrift> unsure);

  /// To be called at the end of each pass: these rows' posteriors are now remembered.
  void count_pass(std::span<const int32_t> rows);

  const DriftEstimate& estimate() const { return estimate_; }
  const SureLock& settings() const { return settings_; }

 private:
  struct RowState {
    bool locked = false;
    bool has_posterior = false;
    bool was_unlocked = false;
    int32_t changed_pass = 0;  // pass of the last lock or unlock
    int32_t probed_pass = 0;   // pass of the lock or the last probe
    int32_t measured_pass = -2;
    double kl = 0;  // drift at measured_pass
  };

  const RowState& state(int32_t row) const { return states_[static_cast<size_t>(row)]; }
  RowState& state(int32_t row) { return states_[static_cast<size_t>(row)]; }
  bool skips_gate(const Canvas& canvas, int32_t row) const;
  bool is_lockable(const Canvas& canvas, int32_t row) const;
  void add_samples(std::span<const RowDrift> drifts, int32_t pass);
  double current_eps() const;

  SureLock settings_;
  std::vector<RowState> states_;
  int32_t num_locked_ = 0;
  double gate_ = 0;  // theta: largest 1 - certainty that passes
  std::vector<double> contractions_, gains_;
  DriftEstimate estimate_;
};

}  // namespace lacuna
