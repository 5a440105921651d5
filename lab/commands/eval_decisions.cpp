#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "engine/decide.h"
#include "engine/decision_temperatures.h"
#include "eval/decisions.h"
#include "eval_command.h"
#include "progress_bar.h"
#include "terminal.h"

namespace lacuna {
namespace {

void check_settings(const EvalCommandFlags& flags) {
  GenerationOptions generation = flags.settings.generation;
  generation.seed.reset();
  const nlohmann::ordered_json given = given_options(generation);
  if (given.empty()) return;
  throw InputError("--{}: has no effect with --task {}; expected --seed alone", given.begin().key(),
                   kDecisionsTask);
}

/// Stories with questions: --samples to evaluate and, with --fit, the same number for fitting.
std::vector<DecisionSample> draw_samples(const EvalCommandFlags& flags) {
  const uint64_t seed = flags.settings.generation.seed.value_or(0);
  std::vector<DecisionSample> samples;
  const auto count = static_cast<size_t>(flags.settings.samples) * (flags.fits ? 2 : 1);
  while (samples.size() < count) samples.push_back(draw_decisions(Split::kTest, seed, samples.size()));
  return samples;
}

std::vector<JudgedDecision> judge(InferenceSession& session, const std::vector<DecisionSample>& samples,
                                  uint64_t seed) {
  std::vector<DecideRequest> requests;
  for (const DecisionSample& sample : samples) {
    DecideRequest& request = requests.emplace_back();
    request.state = sample.story;
    request.questions = sample.questions;
    request.seed = seed + requests.size() - 1;
  }
  ProgressBar bar("Deciding");
  const std::vector<DecideResult> results = decide_all(session, requests, [&](size_t done) {
    bar.update(static_cast<int64_t>(done), static_cast<int64_t>(requests.size()));
  });
  std::vector<JudgedDecision> judged;
  for (size_t i = 0; i < samples.size(); ++i) {
    for (size_t question = 0; question < samples[i].questions.size(); ++question) {
      judged.push_back({samples[i].questions[question], samples[i].answers[question],
                        results[i].logprobs[question], false, results[i].answers[question].label_mass});
    }
  }
  return judged;
}

size_t num_questions(const std::vector<DecisionSample>& samples, size_t count) {
  size_t sum = 0;
  for (size_t i = 0; i < count; ++i) sum += samples[i].questions.size();
  return sum;
}

nlohmann::ordered_json by_kind(std::span<const JudgedDecision> decisions,
                               const DecisionTemperatures& temperatures) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (size_t kind = 0; kind < kNumQuestionKinds; ++kind) {
    const auto each = static_cast<QuestionKind>(kind);
    std::vector<JudgedDecision> own;
    for (const JudgedDecision& decision : decisions) {
      if (decision.question.kind == each) own.push_back(decision);
    }
    if (own.empty()) continue;
    nlohmann::ordered_json& entry = json[std::string(name_of(each))] =
        to_json(measure_decisions(own, temperatures));
    entry["temperature"] = temperatures.of(each);
  }
  return json;
}

void print_quality(std::string_view name, const nlohmann::ordered_json& quality) {
  print_text("{:<10} {:>9} {:>9.4f} {:>9.4f} {:>9.4f} {:>9.4f} {:>9.4f}\n", name,
             quality["questions"].get<size_t>(), quality["accuracy"].get<double>(),
             quality["brier"].get<double>(), quality["ece"].get<double>(), quality["nll"].get<double>(),
             quality["label_mass"].get<double>());
}

void print_table(const nlohmann::ordered_json& json) {
  print_text("{:<10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n", "", "questions", "accuracy", "Brier", "ECE",
             "NLL", "mass");
  print_quality("all", json);
  for (const auto& [kind, quality] : json["by_kind"].items()) print_quality(kind, quality);
  if (!json.contains("fit")) return;
  print_text("\nfitted on {} other questions, at temperatures", json["fit"]["questions"].get<size_t>());
  for (const auto& [kind, temperature] : json["fit"]["temperatures"].items())
    print_text(" {} {:.3f}", kind, temperature.get<double>());
  print_text(":\n");
  print_quality("all", json["fit"]["judged"]);
  print_text("kept in {}\n", json["fit"]["file"].get<std::string>());
}

}  // namespace

void eval_decisions(const EvalCommandFlags& flags) {
  check_settings(flags);
  const std::shared_ptr<const OpenedModel> opened = open_model(flags, TemplateFlags{.raw = flags.raw});
  if (flags.fits && opened->source().folder.empty())
    throw InputError("--fit: {} has no folder to keep decisions.json in", opened->name());
  const uint64_t seed = flags.settings.generation.seed.value_or(0);
  const std::vector<DecisionSample> samples = draw_samples(flags);
  const DecisionTemperatures loaded = opened->decision_temperatures();
  opened->answer_labels();  // throws without a tokenizer, before the weights are read
  const auto session = load_session(flags, opened, own_limits(flags.settings.batch));
  const Stopwatch clock;
  const std::vector<JudgedDecision> decisions = judge(*session, samples, seed);
  const size_t count = num_questions(samples, static_cast<size_t>(flags.settings.samples));
  const auto judged = std::span(decisions).first(count);

  nlohmann::ordered_json json{{"task", kDecisionsTask}, {"samples", flags.settings.samples}};
  json.update(to_json(measure_decisions(judged, loaded)));
  json["by_kind"] = by_kind(judged, loaded);
  json["calibrated"] = loaded.is_fitted;
  json["seed"] = seed;
  if (flags.fits) {
    const auto held_out = std::span(decisions).subspan(count);
    DecisionTemperatures fitted = fit_temperatures(held_out);
    fitted.writes_text = loaded.writes_text;
    nlohmann::ordered_json fit{{"questions", held_out.size()}};
    for (size_t kind = 0; kind < kNumQuestionKinds; ++kind)
      fit["temperatures"][std::string(name_of(static_cast<QuestionKind>(kind)))] = fitted.values[kind];
    fit["judged"] = to_json(measure_decisions(judged, fitted));
    save_decision_temperatures(
        opened->source().folder, fitted,
        {{"fitted_on", {{"task", kDecisionsTask}, {"seed", seed}, {"questions", held_out.size()}}}});
    fit["file"] = decision_sidecar(opened->source().folder).string();
    json["fit"] = std::move(fit);
  }
  json["seconds"] = clock.seconds();
  if (flags.json) {
    print_data("{}", as_line(json));
  } else {
    print_table(json);
  }
}

}  // namespace lacuna
