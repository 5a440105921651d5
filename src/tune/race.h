// Chooses the settings that certification tests. A setting has a level on each path (a series of settings of
// one method): 0 is the baseline, then the path's levels from the most cautious to the boldest. Levels are
// compared on the same prompts (paired), and by counted work, never by measured time: the same losses and
// costs always choose the same settings.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tune/bounds.h"
#include "tune/certify.h"

namespace lacuna {

/// [paths]: the level on each path; 0 is the baseline.
using Levels = std::vector<int32_t>;

/// Losses and work of a setting over some prompts.
struct Measured {
  LossSum sum;
  double cost = 0;           ///< of the setting, such as predicted seconds
  double baseline_cost = 0;  ///< of the baseline on the same prompts

  double cost_ratio() const { return baseline_cost > 0 ? cost / baseline_cost : 1; }
};

/// Measures a setting on the first `prompts` prompts of the race. Prompts that were measured before are not
/// run again.
using MeasureSetting = std::function<Measured(const Levels&, int32_t prompts)>;

struct RaceRules {
  Promise promise;
  std::vector<int32_t> levels;  ///< [paths]: how many levels each path has, at least 1
  /// [paths]: the method of each path. Paths of one method compete; those of different methods may be
  /// combined.
  std::vector<int32_t> methods;
  int32_t first_prompts = 8;  ///< prompts of the first round
  int32_t prompts = 64;       ///< prompts of the last round; each round doubles them
  int32_t kept_paths = 2;     ///< rounds halve the paths of a method down to this many
  int32_t most_chains = 2;
  int32_t most_tested = 6;  ///< maximum settings of a chain
};

struct RaceResult {
  struct Entrant {
    Levels levels;
    Measured measured;
    bool refuted = false;  ///< its losses are too many for the risk, or it saves no work
  };
  std::vector<Entrant> entrants;            ///< all measured settings, in order of first measurement
  std::vector<std::vector<Levels>> chains;  ///< to be certified, each from its most cautious setting
};

/// A level is refuted if its p_value_of_safety() is below this.
inline constexpr double kRefutes = 0.1;
/// Minimum share of the work that a setting must save.
inline constexpr double kMinSaving = 0.01;

/// Runs the race. The boldest level of each path that is not refuted represents the path; after each round
/// the more expensive half of each method's paths drops out. Then paths are combined greedily: from the
/// cheapest path on, each further path joins with its boldest level that saves work and is not refuted. Each
/// such walk becomes a chain.
///   is_valid      whether a setting can be decoded
///   may_continue  false: the race's budget is spent; it ends with the results so far
RaceResult race(const RaceRules& rules, const std::function<bool(const Levels&)>& is_valid,
                const MeasureSetting& measure, const std::function<bool()>& may_continue = {});

}  // namespace lacuna
