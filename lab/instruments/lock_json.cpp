// The findings of instruments/lock.h as lists of flat objects.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "instruments/lock.h"

namespace lacuna {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::pair<const char*, double>, 5> kQuantiles = {
    {{"q05", 0.05}, {"q25", 0.25}, {"q50", 0.5}, {"q75", 0.75}, {"q95", 0.95}}};

/// null for NaN and infinity, which JSON lacks.
Json number_or_null(double value) {
  return std::isfinite(value) ? Json(value) : Json();
}

Json share_of(int64_t part, int64_t whole) {
  return whole > 0 ? Json(static_cast<double>(part) / static_cast<double>(whole)) : Json();
}

/// Values of one figure in some steps, without NaNs.
std::vector<float> values_of(std::span<const RowStep* const> steps, float RowStep::*figure) {
  std::vector<float> values;
  for (const RowStep* step : steps) {
    if (!std::isnan(step->*figure)) values.push_back(step->*figure);
  }
  return values;
}

int64_t count_of(std::span<const RowStep* const> steps, bool RowStep::*flag) {
  return std::ranges::count_if(steps, [&](const RowStep* step) { return step->*flag; });
}

/// Share of the contractions below 1.
Json contracting(std::span<const float> contractions) {
  const auto below = std::ranges::count_if(contractions, [](float value) { return value < 1; });
  return share_of(below, std::ssize(contractions));
}

void add_distribution(std::string_view rows, const char* figure, std::vector<float> values, Json share,
                      Json& out) {
  Json row{{"rows", rows}, {"figure", figure}};
  for (const auto& [name, at] : kQuantiles) row[name] = number_or_null(quantile(values, at));
  row["share"] = std::move(share);
  row["count"] = values.size();
  out.push_back(std::move(row));
}

void add_distributions(std::string_view rows, std::span<const RowStep* const> steps, Json& out) {
  if (steps.empty()) return;
  add_distribution(rows, "divergence", values_of(steps, &RowStep::divergence),
                   share_of(count_of(steps, &RowStep::converged), std::ssize(steps)), out);
  const std::vector<float> contraction = values_of(steps, &RowStep::contraction);
  add_distribution(rows, "contraction", contraction, contracting(contraction), out);
  const std::vector<float> windowed = values_of(steps, &RowStep::windowed_contraction);
  add_distribution(rows, "contraction over 8 steps", windowed, contracting(windowed), out);
  add_distribution(rows, "gain", values_of(steps, &RowStep::gain), Json(), out);
}

using StepsBy = std::map<int32_t, std::vector<const RowStep*>>;

void add_groups(const char* key, const StepsBy& groups, Json& out) {
  for (const auto& [index, steps] : groups) {
    std::vector<float> divergences = values_of(steps, &RowStep::divergence);
    const auto passing =
        std::ranges::count_if(steps, [](const RowStep* step) { return step->converged && step->confident; });
    out.push_back({{key, index},
                   {"divergence_q50", number_or_null(quantile(divergences, 0.5))},
                   {"divergence_q95", number_or_null(quantile(divergences, 0.95))},
                   {"contracting", contracting(values_of(steps, &RowStep::contraction))},
                   {"converged", share_of(count_of(steps, &RowStep::converged), std::ssize(steps))},
                   {"confident", share_of(count_of(steps, &RowStep::confident), std::ssize(steps))},
                   {"both", share_of(passing, std::ssize(steps))},
                   {"locks", count_of(steps, &RowStep::locks)},
                   {"rows", steps.size()}});
  }
}

// Bounds.

using Locks = std::vector<const LockedRow*>;

/// Whether the error is within the bound, with tolerance for divergences that were raised to kMinDivergence.
bool holds(const LockedRow& lock, double bound, double gain) {
  return lock.error <= bound + lock.steps_after * gain * std::sqrt(kMinDivergence);
}

void add_bound(const char* name, const std::optional<TailConstants>& shared, const Locks& locks, Json& out) {
  int64_t applies = 0;
  int64_t held = 0;
  std::vector<float> slack;
  for (const LockedRow* lock : locks) {
    const TailConstants& constants = shared ? *shared : lock->constants;
    const std::optional<double> bound = constants.bound(lock->divergence);
    if (!bound) continue;
    ++applies;
    held += holds(*lock, *bound, constants.gain) ? 1 : 0;
    if (lock->error > 0) slack.push_back(static_cast<float>(*bound / lock->error));
  }
  const bool has_tail = shared && shared->contraction < 1;
  out.push_back({{"constants", name},
                 {"contraction", shared ? number_or_null(shared->contraction) : Json()},
                 {"gain", shared ? number_or_null(shared->gain) : Json()},
                 {"tail", has_tail ? Json(*shared->bound(1)) : Json()},
                 {"applies", share_of(applies, std::ssize(locks))},
                 {"held", share_of(held, applies)},
                 {"bound_over_error_q50", number_or_null(quantile(slack, 0.5))},
                 {"locks", locks.size()}});
}

void add_bounds(std::span<const RowStep* const> steps, const Locks& locks, Json& out) {
  std::vector<float> contractions = values_of(steps, &RowStep::contraction);
  std::vector<float> gains = values_of(steps, &RowStep::gain);
  for (const auto& [name, at] : kQuantiles) {
    if (at < 0.5) continue;
    add_bound(name, TailConstants{quantile(contractions, at), quantile(gains, at)}, locks, out);
  }
  add_bound("of the row itself", {}, locks, out);
}

/// Decimal exponent of a divergence; INT32_MIN below kMinDivergence.
int32_t decade_of(double divergence) {
  return divergence < kMinDivergence ? INT32_MIN : static_cast<int32_t>(std::floor(std::log10(divergence)));
}

void add_decades(const Locks& locks, Json& out) {
  std::map<int32_t, Locks> decades;
  for (const LockedRow* lock : locks) decades[decade_of(lock->divergence)].push_back(lock);
  for (const auto& [decade, of_decade] : decades) {
    std::vector<float> errors, likely, tails;
    int64_t contracting_rows = 0;
    for (const LockedRow* lock : of_decade) {
      errors.push_back(static_cast<float>(lock->error));
      likely.push_back(static_cast<float>(lock->likely_error));
      tails.push_back(
          static_cast<float>(lock->error / std::sqrt(std::max(lock->divergence, kMinDivergence))));
      contracting_rows += lock->constants.contraction < 1 ? 1 : 0;
    }
    out.push_back({{"divergence_at_lock", decade == INT32_MIN ? "0" : fmt::format("1e{}", decade)},
                   {"error_q50", quantile(errors, 0.5)},
                   {"error_q95", quantile(errors, 0.95)},
                   {"likely_error_q50", quantile(likely, 0.5)},
                   {"likely_error_q95", quantile(likely, 0.95)},
                   {"tail_q50", quantile(tails, 0.5)},
                   {"tail_q95", quantile(tails, 0.95)},
                   {"contracts_to_the_end", share_of(contracting_rows, std::ssize(of_decade))},
                   {"locks", of_decade.size()}});
  }
}

void add_every_lock(const LockFindings& findings, Json& out) {
  for (const LockedRow& lock : findings.locks) {
    const bool moved_on = lock.steps_after > 0;
    const std::optional<double> bound = lock.constants.bound(lock.divergence);
    out.push_back({{"lock_of_request", lock.request},
                   {"lock_position", lock.position},
                   {"lock_step", lock.step},
                   {"divergence", lock.divergence},
                   {"uncertainty", lock.uncertainty},
                   {"steps_after", lock.steps_after},
                   {"error", lock.error},
                   {"likely_error", lock.likely_error},
                   {"largest_contraction", moved_on ? Json(lock.constants.contraction) : Json()},
                   {"largest_gain", moved_on ? Json(lock.constants.gain) : Json()},
                   {"bound", moved_on && bound ? Json(*bound) : Json()}});
  }
}

}  // namespace

nlohmann::ordered_json to_json(const LockFindings& findings, bool every_lock) {
  std::vector<const RowStep*> all, prompt, answer;
  StepsBy by_step, by_position;
  for (const RowStep& step : findings.steps) {
    all.push_back(&step);
    by_step[step.step].push_back(&step);
    if (step.position < 0) {
      prompt.push_back(&step);
    } else {
      answer.push_back(&step);
      by_position[step.position].push_back(&step);
    }
  }
  Locks locks;  // those with a pass after them
  for (const LockedRow& lock : findings.locks) {
    if (lock.steps_after > 0) locks.push_back(&lock);
  }
  Json rows = Json::array();
  add_distributions("answer", answer, rows);
  add_distributions("prompt", prompt, rows);
  add_groups("step", by_step, rows);
  add_groups("position", by_position, rows);
  add_decades(locks, rows);
  add_bounds(all, locks, rows);
  if (every_lock) add_every_lock(findings, rows);
  return rows;
}

}  // namespace lacuna
