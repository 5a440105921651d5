// `lacuna tune`: finds a fast setting with a guaranteed risk relative to the uncached baseline on a user's
// prompts (decision 22). A race on some of the prompts chooses the settings to test; a test on the other
// prompts certifies them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "eval/tuning_runs.h"
#include "options/tuning_paths.h"
#include "tune/certify.h"
#include "tune/race.h"

namespace lacuna {

struct TuningPlan {
  Promise promise;
  TuningLoss loss = TuningLoss::kChangedAnswer;
  GenerationOptions asked;  ///< the user's settings: the same in the baseline and in every setting
  std::vector<TuningPath> paths;
  MachinePeaks peaks{1, 1};   ///< speeds that predict the time of a setting
  int32_t prompts = 0;        ///< total number of prompts
  double budget_seconds = 0;  ///< wall time of the baseline's work that may be spent; 0: no limit
};

/// Split of the prompts; the first ones are for the race.
struct PromptSplit {
  int32_t race = 0;
  int32_t certification = 0;
  int32_t chains = 0;  ///< number of chains that the prompts allow
};

/// Minimum number of prompts of a race.
inline constexpr int32_t kFewestRacePrompts = 8;
/// Minimum number of prompts to certify the promise, including the race.
int64_t fewest_prompts(const Promise& promise);
/// Recommended number of prompts, with which settings of low loss are likely to be certified: three times the
/// minimum for certification, and a third of that for the race.
int32_t usual_prompts(const Promise& promise);
/// Gives a quarter of the prompts to the race, at most 256 and at least kFewestRacePrompts; fewer if
/// certification needs them. Throws InputError if they do not suffice: it names the number that is needed and
/// the risk that `prompts` allow.
PromptSplit split_prompts(const Promise& promise, int32_t prompts);

/// A setting relative to the baseline on the same prompts.
struct WorkRatios {
  double predicted = 1;  ///< MachinePeaks::seconds()
  double flops = 1;
  double rows = 1;
  double seconds = 1;
};

struct TunedCandidate {
  Levels levels;
  std::vector<TuningSetting> settings;
  bool is_guided = false;
  size_t chain = 0;
  LossSum sum;  ///< over the certification prompts on which the setting ran
  double p_value = 1;
  /// Upper bound on the risk at the chain's level, for this setting alone. For all certified settings
  /// jointly, and so for the chosen one, the requested risk is the bound. 1 if the test ended early.
  double bound = 1;
  bool certified = false;
  WorkRatios ratios;  ///< on the prompts of `sum`
};

struct TuningResult {
  PromptSplit split;
  double level = 0;                    ///< significance level of each chain
  std::vector<TunedCandidate> tested;  ///< in the order of testing
  std::optional<size_t>
      chosen;                 ///< index in `tested` of the certified setting with the shortest predicted time
  size_t num_raced = 0;       ///< settings that the race measured
  bool budget_spent = false;  ///< the time budget ended the tuning early
  int64_t num_correct = 0;    ///< baseline's correct answers on all prompts, with a checker
  double baseline_seconds = 0;  ///< per prompt
  double baseline_flops = 0;    ///< per prompt
};

/// Progress of the tuning, for a progress bar: `phase` is "baseline", "race" or "certification", `done` of
/// `total` prompts are done; `total` is 0 in a race, where it is unknown.
using TuningProgress = std::function<void(const char* phase, int64_t done, int64_t total)>;

/// Runs the baseline, the race and the certification. Except for measured times, the result is a function of
/// the model, the prompts and the plan, including its peaks; with a budget, also of the speed in the log.
/// Throws InputError.
TuningResult tune(const TuningPlan& plan, TuningRuns& runs, TuningLog& log,
                  const TuningProgress& progress = {});

}  // namespace lacuna
