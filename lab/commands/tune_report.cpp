#include "tune_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "terminal.h"

namespace lacuna {
namespace {

/// The loss in words, to follow a share or a number.
std::string_view harm_of(TuningLoss loss) {
  switch (loss) {
    case TuningLoss::kChangedAnswer:
      return "of answers change";
    case TuningLoss::kWrongAnswer:
      return "of answers become wrong that the baseline gets right";
    case TuningLoss::kToken:
      return "of an answer's tokens change, on average";
    case TuningLoss::kKl:
      return "nats of divergence (KL, cut at 1) per token, on average";
    case TuningLoss::kJudge:
      break;
  }
  return "mean increase of the judge's negative log-likelihood, nats per token (cut at 1)";
}

std::string amount(TuningLoss loss, double value) {
  const bool is_in_nats = loss == TuningLoss::kKl || loss == TuningLoss::kJudge;
  return is_in_nats ? fmt::format("{:.3g}", value) : fmt::format("{:.3g}%", 100 * value);
}

std::string fewer(double ratio) {
  return ratio > 0 ? fmt::format("{:.3g}x", 1 / ratio) : "all";
}

std::string_view harm_title(TuningLoss loss) {
  switch (loss) {
    case TuningLoss::kChangedAnswer:
      return "changed";
    case TuningLoss::kWrongAnswer:
      return "became wrong";
    case TuningLoss::kToken:
      return "tokens changed";
    case TuningLoss::kKl:
      return "divergence";
    case TuningLoss::kJudge:
      break;
  }
  return "added NLL";
}

std::string settings_text(const TunedCandidate& candidate) {
  std::string text = describe(candidate.settings);
  if (candidate.is_guided) text = text.empty() ? "with the guide" : text + " (guide)";
  return text;
}

std::string losses_text(TuningLoss loss, const LossSum& sum) {
  if (kind_of(loss) == LossKind::kBinary) return fmt::format("{:.0f} of {}", sum.losses, sum.prompts);
  return fmt::format("{} on {}", amount(loss, sum.mean()), sum.prompts);
}

/// "holds" for a certified setting, else the reason why it is not certified.
std::string verdict(const TuningReport& report, const TunedCandidate& candidate) {
  if (candidate.certified) return "holds";
  const bool out_of_budget =
      candidate.bound >= 1 && may_still_pass(report.plan.promise, candidate.sum,
                                             report.result.split.certification, report.result.level);
  return out_of_budget ? "unknown: the budget ran out" : "not shown";
}

void print_table(const TuningReport& report) {
  size_t width = 8;
  for (const TunedCandidate& each : report.result.tested) width = std::max(width, settings_text(each).size());
  print_text("  {:<{}}  {:>9} {:>6} {:>6} {:>6}  {:>14}  {}\n", "settings", width, "predicted", "FLOPs",
             "rows", "time", harm_title(report.plan.loss), "promise");
  size_t chain = 0;
  for (const TunedCandidate& each : report.result.tested) {
    if (each.chain != chain) print_text("\n");
    chain = each.chain;
    print_text("  {:<{}}  {:>9.3f} {:>6.3f} {:>6.3f} {:>6.3f}  {:>14}  {}\n", settings_text(each), width,
               each.ratios.predicted, each.ratios.flops, each.ratios.rows, each.ratios.seconds,
               losses_text(report.plan.loss, each.sum), verdict(report, each));
  }
  const auto failed = [](const TunedCandidate& each) { return !each.certified; };
  if (std::any_of(report.result.tested.begin(), report.result.tested.end(), failed)) {
    print_text(
        "\n  A test ends as soon as the promise can no longer be shown; bolder settings are then not "
        "tested.\n");
  }
}

/// Points out another certified setting that was clearly faster here: kernels do not reach a machine's peaks
/// equally well.
void print_faster(const TuningReport& report, const TunedCandidate& chosen) {
  constexpr double kClearly = 0.9;
  const TunedCandidate* fastest = nullptr;
  for (const TunedCandidate& each : report.result.tested) {
    const double bound = fastest != nullptr ? fastest->ratios.seconds : kClearly * chosen.ratios.seconds;
    if (each.certified && each.ratios.seconds < bound) fastest = &each;
  }
  if (fastest == nullptr) return;
  print_text("  In these runs another setting that holds was faster, {}: {}\n",
             fewer(fastest->ratios.seconds), settings_text(*fastest));
}

void print_choice(const TuningReport& report) {
  const TuningPlan& plan = report.plan;
  if (!report.result.chosen) {
    print_text(
        "\nNo setting keeps the promise on these prompts. Use the baseline, or ask for a larger --risk, "
        "more\n"
        "--samples or another --loss.\n");
    return;
  }
  const TunedCandidate& chosen = report.result.tested[*report.result.chosen];
  print_text("\nChosen: {}\n", settings_text(chosen));
  print_text(
      "  {} faster than the baseline by FLOPs and bytes, {} in these runs; {} fewer FLOPs, {} fewer rows.\n",
      fewer(chosen.ratios.predicted), fewer(chosen.ratios.seconds), fewer(chosen.ratios.flops),
      fewer(chosen.ratios.rows));
  print_faster(report, chosen);
  print_text("  At most {} {}, with {:.4g}% confidence.\n", amount(plan.loss, plan.promise.risk),
             harm_of(plan.loss), 100 * plan.promise.confidence);
  print_text("  This rests on {} prompts that played no part in choosing what to test; {}: {}.\n",
             chosen.sum.prompts, harm_title(plan.loss), losses_text(plan.loss, chosen.sum));
}

void print_limits(const TuningReport& report) {
  print_text(
      "\nNot tested, and so not promised: prompts of another kind than {}; another model, other weights or\n"
      "K/V formats; other generation flags{}. docs/guide/tune.md explains each.\n",
      report.prompts_name,
      given_settings(report.plan.asked).empty()
          ? std::string()
          : " than " + describe(std::span<const TuningSetting>(given_settings(report.plan.asked))));
}

nlohmann::ordered_json ratios_json(const WorkRatios& ratios) {
  return {{"predicted", ratios.predicted},
          {"flops", ratios.flops},
          {"rows", ratios.rows},
          {"seconds", ratios.seconds}};
}

}  // namespace

void print_report(const TuningReport& report) {
  const TuningPlan& plan = report.plan;
  const TuningResult& result = report.result;
  print_text("Model     {}\n", report.model);
  print_text("Prompts   {} of {}: {} to choose settings, {} to test them\n",
             result.split.race + result.split.certification, report.prompts_name, result.split.race,
             result.split.certification);
  print_text("Promise   at most {} {}, compared with the uncached baseline.\n",
             amount(plan.loss, plan.promise.risk), harm_of(plan.loss));
  print_text("          Of 100 tunings like this one, at most {:.3g} choose a setting that breaks it.\n",
             100 * (1 - plan.promise.confidence));
  if (report.has_checker) {
    print_text("Baseline  {} of {} answers correct, {:.3g} s for each\n", result.num_correct,
               result.split.race + result.split.certification, result.baseline_seconds);
  } else {
    print_text("Baseline  {:.3g} s for each answer\n", result.baseline_seconds);
  }
  print_text("\n{} settings were compared on the first {} prompts.", result.num_raced, result.split.race);
  if (result.tested.empty()) {
    print_text(" None of them saves work at this risk.\n");
  } else {
    print_text(
        " These were tested on the others, the most cautious first.\n"
        "Relative to the baseline: time predicted from FLOPs and bytes (--gflops {:.3g} --bandwidth {:.3g}), "
        "FLOPs, rows,\n"
        "measured time:\n\n",
        plan.peaks.flops / 1e9, plan.peaks.bandwidth / 1e9);
    print_table(report);
  }
  print_choice(report);
  if (result.budget_spent) print_text("\nThe budget ran out: a larger --budget may find more.\n");
  if (result.chosen) print_limits(report);
  if (!report.saved_as.empty()) {
    const bool is_guided = result.tested[*result.chosen].is_guided;
    print_text("\nSaved as {}. Use it with: lacuna run -m {}{} --preset {}\n", report.saved_to.string(),
               report.model, is_guided ? " --guide " + report.guide : "", report.saved_as);
  }
}

nlohmann::ordered_json to_json(const TuningReport& report) {
  const TuningPlan& plan = report.plan;
  const TuningResult& result = report.result;
  nlohmann::ordered_json tested = nlohmann::ordered_json::array();
  for (const TunedCandidate& each : result.tested) {
    tested.push_back({{"settings", describe(each.settings)},
                      {"guide", each.is_guided},
                      {"chain", each.chain},
                      {"prompts", each.sum.prompts},
                      {"losses", each.sum.losses},
                      {"p_value", each.p_value},
                      {"bound", each.bound},
                      {"certified", each.certified},
                      {"relative", ratios_json(each.ratios)}});
  }
  nlohmann::ordered_json json{{"model", report.model},
                              {"baseline", report.baseline},
                              {"prompts", report.prompts_name},
                              {"loss", name_of(plan.loss)},
                              {"risk", plan.promise.risk},
                              {"confidence", plan.promise.confidence},
                              {"race_prompts", result.split.race},
                              {"certification_prompts", result.split.certification},
                              {"level", result.level},
                              {"raced_settings", result.num_raced},
                              {"budget_spent", result.budget_spent},
                              {"peak_flops", plan.peaks.flops},
                              {"peak_bandwidth", plan.peaks.bandwidth},
                              {"baseline_seconds", result.baseline_seconds},
                              {"baseline_flops", result.baseline_flops}};
  json["baseline_correct"] = report.has_checker ? nlohmann::ordered_json(result.num_correct) : nullptr;
  json["tested"] = std::move(tested);
  json["chosen"] = result.chosen ? nlohmann::ordered_json(*result.chosen) : nullptr;
  json["saved_to"] = report.saved_as.empty() ? nullptr : nlohmann::ordered_json(report.saved_to.string());
  return json;
}

}  // namespace lacuna
