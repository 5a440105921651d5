#include "decode/surelock.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace lacuna {
namespace {

constexpr double kMinEps = 1e-8;
constexpr double kMaxEps = 5e-2;

/// The k-th smallest value with k = max(1, ceil(percent / 100 * count)).
double nearest_rank(std::vector<double>& values, double percent) {
  const auto count = static_cast<double>(values.size());
  const auto rank = static_cast<size_t>(std::clamp(std::ceil(percent * count / 100), 1.0, count));
  const auto kth = values.begin() + static_cast<std::ptrdiff_t>(rank - 1);
  std::nth_element(values.begin(), kth, values.end());
  return *kth;
}

}  // namespace

LockTable::LockTable(const SureLock& settings, const Canvas& canvas)
    : settings_(settings), states_(static_cast<size_t>(canvas.length())) {
  estimate_.eps = current_eps();
}

void LockTable::restart() {
  std::fill(states_.begin(), states_.end(), RowState());
  num_locked_ = 0;
  gate_ = 0;
}

void LockTable::remove_locked(std::vector<int32_t>& rows) const {
  std::erase_if(rows, [&](int32_t row) { return is_locked(row); });
}

bool LockTable::skips_gate(const Canvas& canvas, int32_t row) const {
  return settings_.eager_prompt && canvas.predicted(row) < canvas.prompt_length();
}

bool LockTable::is_lockable(const Canvas& canvas, int32_t row) const {
  const RowState& state = this->state(row);
  // num_passes() includes the current pass.
  const bool rests = state.was_unlocked && canvas.num_passes() - state.changed_pass <= settings_.cooldown;
  return !state.locked && !rests && canvas.is_known(row) && canvas.is_known(canvas.predicted(row)) &&
         canvas.age(row) >= settings_.min_age;
}

std::vector<int32_t> LockTable::rows_to_judge(const Canvas& canvas, std::span<const int32_t> rows,
                                              std::span<const int32_t> drawn_positions) const {
  const auto may_be_known = [&](int32_t position) {
    return canvas.is_known(position) ||
           std::binary_search(drawn_positions.begin(), drawn_positions.end(), position);
  };
  std::vector<int32_t> judged;
  for (const int32_t row : rows) {
    const int32_t age = canvas.is_masked(row) ? 0 : canvas.age(row) + 1;  // after the pass
    const bool may_lock =
        may_be_known(row) && may_be_known(canvas.predicted(row)) && age >= settings_.min_age;
    if (settings_.gate_counts_unlocked || may_lock) judged.push_back(row);
  }
  return judged;
}

std::vector<int32_t> LockTable::rows_to_probe(const Canvas& canvas) const {
  std::vector<int32_t> rows;
  if (settings_.unlock_every == 0 || canvas.num_passes() % settings_.unlock_every != 0) return rows;
  for (int32_t row = 0; row < canvas.length(); ++row) {
    if (is_locked(row)) rows.push_back(row);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [&](int32_t a, int32_t b) { return state(a).probed_pass < state(b).probed_pass; });
  rows.resize(std::min(rows.size(), static_cast<size_t>(settings_.probes)));
  std::sort(rows.begin(), rows.end());
  return rows;
}

std::vector<int32_t> LockTable::close_gate(const Canvas& canvas, std::span<const int32_t> judged,
                                           std::span<const double> certainties) {
  expects(judged.size() == certainties.size(), "close_gate: one certainty for each judged row");
  std::vector<double> population;
  for (size_t i = 0; i < judged.size(); ++i) {
    const bool counts = settings_.gate_counts_unlocked || is_lockable(canvas, judged[i]);
    if (counts && !skips_gate(canvas, judged[i])) population.push_back(1 - certainties[i]);
  }
  const bool has_gate = settings_.gate < 100 && !population.empty();
  gate_ = has_gate ? nearest_rank(population, settings_.gate) : 0;

  std::vector<int32_t> passed;
  for (size_t i = 0; i < judged.size(); ++i) {
    const int32_t row = judged[i];
    const bool passes = settings_.gate >= 100 || skips_gate(canvas, row) || 1 - certainties[i] <= gate_;
    if (passes && is_lockable(canvas, row) && state(row).has_posterior) passed.push_back(row);
  }
  return passed;
}

double LockTable::current_eps() const {
  if (!settings_.delta) return settings_.eps;
  if (estimate_.samples < kMinDriftSamples || !(estimate_.contraction < kMaxContraction) ||
      !(estimate_.gain > 0)) {
    return settings_.eps;
  }
  const double root = *settings_.delta * (1 - std::sqrt(estimate_.contraction)) / estimate_.gain;
  return std::clamp(root * root, kMinEps, kMaxEps);
}

void LockTable::add_samples(std::span<const RowDrift> drifts, int32_t pass) {
  if (!settings_.delta) return;
  for (const RowDrift& drift : drifts) {
    RowState& state = this->state(drift.row);
    const bool is_finite = std::isfinite(state.kl) && std::isfinite(drift.kl);
    if (state.measured_pass == pass - 1 && state.kl >= kMinDivergence && is_finite) {
      contractions_.push_back(drift.kl / state.kl);
      gains_.push_back(drift.max_log_change / std::sqrt(state.kl));
    }
    state.measured_pass = pass;
    state.kl = drift.kl;
  }
  if (contractions_.empty()) return;
  estimate_.samples = static_cast<int64_t>(contractions_.size());
  estimate_.contraction = nearest_rank(contractions_, 95);
  estimate_.gain = nearest_rank(gains_, 95);
}

std::vector<int32_t> LockTable::lock(const Canvas& canvas, std::span<const RowDrift> drifts) {
  const int32_t pass = canvas.num_passes();
  add_samples(drifts, pass);
  estimate_.eps = current_eps();
  std::vector<int32_t> locked;
  for (const RowDrift& drift : drifts) {
    RowState& state = this->state(drift.row);
    const double eps = estimate_.eps * (state.was_unlocked ? settings_.strictness : 1);
    if (!(eps > 0 && drift.kl <= eps)) continue;
    state.locked = true;
    state.changed_pass = state.probed_pass = pass;
    ++num_locked_;
    locked.push_back(drift.row);
  }
  return locked;
}

std::vector<int32_t> LockTable::unlock(const Canvas& canvas, std::span<const int32_t> probed,
                                       std::span<const RowDrift> unsure) {
  const int32_t pass = canvas.num_passes();
  const double eps = settings_.unlock_eps.value_or(10 * estimate_.eps);
  for (const int32_t row : probed) state(row).probed_pass = pass;
  std::vector<int32_t> unlocked;
  for (const RowDrift& drift : unsure) {
    RowState& state = this->state(drift.row);
    if (!(drift.kl > eps) || pass - state.changed_pass <= settings_.min_locked_passes) continue;
    state.locked = false;
    state.was_unlocked = true;
    state.changed_pass = pass;
    --num_locked_;
    unlocked.push_back(drift.row);
  }
  return unlocked;
}

void LockTable::count_pass(std::span<const int32_t> rows) {
  for (const int32_t row : rows) state(row).has_posterior = true;
}

}  // namespace lacuna
