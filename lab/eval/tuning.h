// `lacuna tune`: runs of the uncached baseline on a user's prompts become a setting with a guarantee
// (decision 22). A race on some of the prompts chooses which settings to test; a test on the others certifies
// them.
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
  int32_t prompts = 0;        ///< in all
  double budget_seconds = 0;  ///< wall time of the baseline's work that may be spent; 0: no limit
};

/// How the prompts are shared: the first ones race.
struct PromptSplit {
  int32_t race = 0;
  int32_t certification = 0;
  int32_t chains = 0;  ///< chains that the prompts suffice for
};

/// Fewest prompts of a race.
inline constexpr int32_t kFewestRacePrompts = 8;
/// Prompts without which the promise cannot be certified, those of the race included.
int64_t fewest_prompts(const Promise& promise);
/// A number of prompts at which a setting that rarely loses has a good chance: three times what certification
/// needs, and a third of that for the race.
int32_t usual_prompts(const Promise& promise);
/// A quarter for the race, at most 256 and at least kFewestRacePrompts; less where certification needs the
/// prompts. Throws InputError if they do not suffice: it says how many are needed and which risk these allow.
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
  LossSum sum;  ///< over the prompts of certification that it was run on
  double p_value = 1;
  /// Upper bound of the risk at the chain's level, for this setting taken alone: what holds for all certified
  /// settings together, and so for a chosen one, is the asked risk. 1 where the test ended early.
  double bound = 1;
  bool certified = false;
  WorkRatios ratios;  ///< on those prompts
};

struct TuningResult {
  PromptSplit split;
  double level = 0;                    ///< of each chain
  std::vector<TunedCandidate> tested;  ///< in the order of testing
  std::optional<size_t>
      chosen;                 ///< index in `tested` of the certified setting with the shortest predicted time
  size_t num_raced = 0;       ///< settings that the race measured
  bool budget_spent = false;  ///< something was left out because of it
  int64_t num_correct = 0;    ///< baseline's correct answers on all prompts, where a checker judges
  double baseline_seconds = 0;  ///< per prompt
  double baseline_flops = 0;    ///< per prompt
};

/// Progress of the tuning, for a progress bar: "baseline", "race" or "certification", with prompts done of
/// all; in a race, of which the number of runs is not known, `total` is 0.
using TuningProgress = std::function<void(const char* phase, int64_t done, int64_t total)>;

/// Runs the whole of it. Everything but measured times is a function of the model, the prompts and the plan,
/// its peaks included; with a budget also of the speed that the log keeps. Throws InputError.
TuningResult tune(const TuningPlan& plan, TuningRuns& runs, TuningLog& log,
                  const TuningProgress& progress = {});

}  // namespace lacuna
