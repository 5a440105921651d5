#include "eval/tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"

namespace lacuna {
namespace {

constexpr int32_t kMaxRacePrompts = 256;
constexpr int32_t kMaxChains = 2;
constexpr int32_t kTimedPrompts = 8;  // prompts that measure the baseline's speed

// Shares of the time budget.
constexpr double kBaselineShare = 0.4;
constexpr double kRaceShare = 0.7;  // includes the baseline's share

int32_t race_prompts(int64_t needed, int32_t prompts) {
  const int32_t quarter = std::clamp(prompts / 4, kFewestRacePrompts, kMaxRacePrompts);
  const auto spare = static_cast<int32_t>(std::max<int64_t>(prompts - needed, 0));
  return std::max(kFewestRacePrompts, std::min(quarter, spare));
}

/// State of one tuning.
class Tuner {
 public:
  Tuner(const TuningPlan& plan, TuningRuns& runs, TuningLog& log, const TuningProgress& progress)
      : plan_(plan), runs_(runs), log_(log), progress_(progress) {
    baseline_.options = baseline_options(config(), plan.asked);
  }

  TuningResult tune() {
    prompts_ = plan_.prompts;
    split_prompts(plan_.promise, prompts_);  // throws before anything runs if the promise is impossible
    if (plan_.budget_seconds > 0) plan_budget();
    result_.split = split_prompts(plan_.promise, prompts_);
    run_baseline();
    const RaceResult raced = run_race();
    result_.num_raced = raced.entrants.size();
    run_certification(raced.chains);
    choose();
    return std::move(result_);
  }

 private:
  const ModelConfig& config() const { return runs_.config(); }

  /// Converts the time budget into FLOPs at the baseline's speed, and drops prompts that exceed its share.
  void plan_budget() {
    const int32_t timed = std::min(kTimedPrompts, prompts_);
    runs_.run_baseline(baseline_, 0, timed);
    RunWork work;
    for (int32_t i = 0; i < timed; ++i) add(log_.baseline(i)->work, work);
    if (!log_.speed()) log_.set_speed(std::max(1.0, work.flops / std::max(work.seconds, 1e-9)));
    budget_ = plan_.budget_seconds * *log_.speed();
    const double per_prompt = std::max(work.flops / timed, 1.0);
    const double affordable = kBaselineShare * *budget_ / per_prompt;
    if (affordable >= prompts_) return;
    result_.budget_spent = true;
    prompts_ = static_cast<int32_t>(affordable);
    const int64_t fewest = fewest_prompts(plan_.promise);
    if (prompts_ >= fewest) return;
    const double needed = static_cast<double>(fewest) * per_prompt / kBaselineShare / *log_.speed();
    throw InputError(
        "--budget allows the baseline on {} prompts; the promise needs {}: expected a budget of at least "
        "{:.1f} minutes, a larger --risk or a smaller --confidence",
        prompts_, fewest, needed / 60);
  }

  static void add(const RunWork& work, RunWork& sum) {
    sum.flops += work.flops;
    sum.bytes += work.bytes;
    sum.rows += work.rows;
    sum.seconds += work.seconds;
  }

  void report(const char* phase, int64_t done, int64_t total) const {
    if (progress_) progress_(phase, done, total);
  }

  void run_baseline() {
    RunWork work;
    for (int32_t first = 0; first < prompts_; first += runs_.batch()) {
      runs_.run_baseline(baseline_, first, std::min(runs_.batch(), prompts_ - first));
      report("baseline", first, prompts_);
    }
    for (int32_t i = 0; i < prompts_; ++i) {
      add(log_.baseline(i)->work, work);
      result_.num_correct += log_.baseline(i)->correct ? 1 : 0;
    }
    result_.baseline_flops = work.flops / prompts_;
    result_.baseline_seconds = work.seconds / prompts_;
    spent_ += work.flops;
  }

  TunedSetting setting_of(const Levels& levels) const {
    const std::optional<GenerationOptions> options =
        tuned_options(config(), plan_.asked, plan_.paths, levels);
    expects(options.has_value(), "tuning: only settings that can be decoded are run");
    return {describe(settings_of(plan_.paths, levels)), *options, is_guided(levels),
            loading_of(plan_.paths, levels)};
  }

  bool is_guided(const Levels& levels) const {
    for (size_t i = 0; i < levels.size(); ++i) {
      if (levels[i] > 0 && plan_.paths[i].uses_guide) return true;
    }
    return false;
  }

  bool is_valid(const Levels& levels) {
    const auto known = validity_.find(levels);
    if (known != validity_.end()) return known->second;
    bool valid = tuned_options(config(), plan_.asked, plan_.paths, levels).has_value();
    try {
      if (valid) runs_.make_decoder(setting_of(levels), 0);
    } catch (const InputError&) {  // the model or the combination does not support a method
      valid = false;
    }
    validity_[levels] = valid;
    return valid;
  }

  /// Results of a setting, and the baseline's work on the same prompts.
  struct Tally {
    LossSum sum;
    RunWork work;
    RunWork baseline;
  };

  /// Adds a prompt on which the setting has run. Runs from the log count as spent too, so that a resumed
  /// tuning decides like an uninterrupted one.
  void add_prompt(const TunedSetting& setting, int32_t prompt, Tally& tally) {
    const TunedRun& run = *log_.tuned(setting.name, prompt);
    ++tally.sum.prompts;
    tally.sum.losses += loss_of(plan_.loss, run);
    add(run.work, tally.work);
    add(log_.baseline(prompt)->work, tally.baseline);
    if (counted_.insert({setting.name, prompt}).second) spent_ += run.work.flops;
  }

  RaceResult run_race() {
    RaceRules rules;
    rules.promise = plan_.promise;
    rules.prompts = result_.split.race;
    rules.most_chains = result_.split.chains;
    const std::vector<std::string> methods = methods_of(plan_.paths);
    for (const TuningPath& path : plan_.paths) {
      rules.levels.push_back(static_cast<int32_t>(path.levels.size()));
      const auto method = std::find(methods.begin(), methods.end(), path.method);
      rules.methods.push_back(static_cast<int32_t>(method - methods.begin()));
    }
    int64_t done = 0;
    return race(
        rules, [this](const Levels& levels) { return is_valid(levels); },
        [&](const Levels& levels, int32_t prompts) {
          const TunedSetting setting = setting_of(levels);
          runs_.run(setting, baseline_, 0, prompts);
          Tally tally;
          for (int32_t prompt = 0; prompt < prompts; ++prompt) add_prompt(setting, prompt, tally);
          report("race", done += prompts, 0);
          return Measured{tally.sum, plan_.peaks.seconds(tally.work), plan_.peaks.seconds(tally.baseline)};
        },
        [this] { return may_spend(kRaceShare); });
  }

  bool may_spend(double share) {
    if (!budget_ || spent_ < share * *budget_) return true;
    result_.budget_spent = true;
    return false;
  }

  void run_certification(const std::vector<std::vector<Levels>>& raced) {
    std::vector<Levels> settings;
    std::vector<Chain> chains;
    for (const std::vector<Levels>& chain : raced) {
      chains.emplace_back();
      for (const Levels& levels : chain) {
        chains.back().push_back(settings.size());
        settings.push_back(levels);
      }
    }
    if (chains.empty()) return;
    result_.level = (1 - plan_.promise.confidence) / static_cast<double>(chains.size());
    std::vector<WorkRatios> ratios(settings.size());
    int64_t done = 0;
    const auto most = static_cast<int64_t>(settings.size()) * result_.split.certification;
    const Certification certification =
        certify(plan_.promise, chains, result_.split.certification, [&](size_t setting) {
          const LossSum sum = test(settings[setting], ratios[setting], done, most);
          done += result_.split.certification;
          return sum;
        });
    for (const TestedSetting& test : certification.tested) {
      const Levels& levels = settings[test.setting];
      TunedCandidate candidate{levels,
                               settings_of(plan_.paths, levels),
                               is_guided(levels),
                               test.chain,
                               test.sum,
                               test.p_value,
                               1,
                               false,
                               {}};
      candidate.certified = test.certified;
      candidate.ratios = ratios[test.setting];
      if (test.sum.prompts == result_.split.certification) {
        candidate.bound = upper_bound(plan_.promise.kind, test.sum, result_.level);
      }
      result_.tested.push_back(std::move(candidate));
    }
  }

  /// Losses of a setting on the certification prompts, up to the first after which it cannot pass any more.
  /// Prompts run in batches but count one by one, so that batching does not change where a test ends.
  LossSum test(const Levels& levels, WorkRatios& ratios, int64_t done, int64_t most) {
    const TunedSetting setting = setting_of(levels);
    const PromptSplit& split = result_.split;
    Tally tally;
    const auto continues = [&] {
      return tally.sum.prompts < split.certification && may_spend(1) &&
             may_still_pass(plan_.promise, tally.sum, split.certification, result_.level);
    };
    int32_t end = split.race;  // prompts before this one have been run
    while (continues()) {
      const int32_t prompt = split.race + static_cast<int32_t>(tally.sum.prompts);
      if (prompt == end) {
        end = std::min(end + runs_.batch(), split.race + split.certification);
        runs_.run(setting, baseline_, prompt, end - prompt);
        report("certification", done + tally.sum.prompts, most);
      }
      add_prompt(setting, prompt, tally);
    }
    if (tally.baseline.flops > 0) {
      const auto baseline_rows = static_cast<double>(std::max<int64_t>(tally.baseline.rows, 1));
      ratios.predicted = plan_.peaks.seconds(tally.work) / plan_.peaks.seconds(tally.baseline);
      ratios.flops = tally.work.flops / tally.baseline.flops;
      ratios.rows = static_cast<double>(tally.work.rows) / baseline_rows;
      ratios.seconds = tally.work.seconds / std::max(tally.baseline.seconds, 1e-9);
    }
    return tally.sum;
  }

  void choose() {
    for (size_t i = 0; i < result_.tested.size(); ++i) {
      const TunedCandidate& candidate = result_.tested[i];
      if (!candidate.certified) continue;
      if (!result_.chosen || candidate.ratios.predicted < result_.tested[*result_.chosen].ratios.predicted) {
        result_.chosen = i;
      }
    }
  }

  const TuningPlan& plan_;
  TuningRuns& runs_;
  TuningLog& log_;
  const TuningProgress& progress_;
  TunedSetting baseline_;
  int32_t prompts_ = 0;
  std::optional<double> budget_;  // FLOPs
  double spent_ = 0;              // FLOPs of the counted runs
  std::set<std::pair<std::string, int32_t>> counted_;
  std::map<Levels, bool> validity_;
  TuningResult result_;
};

}  // namespace

int64_t fewest_prompts(const Promise& promise) {
  return prompts_needed(promise.risk, 1 - promise.confidence) + kFewestRacePrompts;
}

int32_t usual_prompts(const Promise& promise) {
  const int64_t needed = prompts_needed(promise.risk, (1 - promise.confidence) / kMaxChains);
  return static_cast<int32_t>(std::min<int64_t>(4 * needed, 1'000'000));
}

PromptSplit split_prompts(const Promise& promise, int32_t prompts) {
  const double level = 1 - promise.confidence;
  const int64_t needed = prompts_needed(promise.risk, level);
  if (prompts < fewest_prompts(promise)) {
    const int64_t left = std::max(0, prompts - kFewestRacePrompts);
    const std::string smallest = left > 0
                                     ? fmt::format("; with {} prompts the smallest risk is {:.3f}", prompts,
                                                   upper_bound(LossKind::kBinary, {left, 0}, level) + 5e-4)
                                     : std::string();
    throw InputError(
        "a risk of {} at a confidence of {} needs at least {} prompts, {} to choose settings and {} to test "
        "them; found {}{}",
        promise.risk, promise.confidence, fewest_prompts(promise), kFewestRacePrompts, needed, prompts,
        smallest);
  }
  PromptSplit split;
  split.race = race_prompts(prompts_needed(promise.risk, level / kMaxChains), prompts);
  split.certification = prompts - split.race;
  split.chains = affordable_chains(promise, split.certification, kMaxChains);
  return split;
}

TuningResult tune(const TuningPlan& plan, TuningRuns& runs, TuningLog& log, const TuningProgress& progress) {
  return Tuner(plan, runs, log, progress).tune();
}

}  // namespace lacuna
