// lacuna eval --task mmlu-pro and the other benchmarks of multiple choice.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.h"
#include "eval/choice_likelihood.h"
#include "eval_command.h"
#include "progress_bar.h"
#include "terminal.h"

namespace lacuna {
namespace {

/// Whether options are scored by their likelihood. Throws InputError if the benchmark does not support that.
bool scores_likelihood(const EvalCommandFlags& flags, const ChoiceBenchmark& benchmark, bool is_chat) {
  if (flags.scoring == "likelihood" && !benchmark.likelihood) {
    throw InputError("--scoring likelihood: --task {} asks for an explained answer; expected generation",
                     benchmark.name);
  }
  if (!flags.scoring.empty()) return flags.scoring == "likelihood";
  return benchmark.likelihood && !is_chat;
}

void print_likelihood_report(const nlohmann::ordered_json& report, const ChoiceLikelihoods& result,
                             Paradigm paradigm) {
  const auto print_accuracy = [&](const char* what, const nlohmann::ordered_json& share) {
    print_text("{:<10} {:.4f} ({} of {}), {:.4f} to {:.4f} (95%)\n", what, share["accuracy"].get<double>(),
               share["correct"].get<int64_t>(), result.items.size(), share["accuracy_low"].get<double>(),
               share["accuracy_high"].get<double>());
  };
  print_text("task       {}, likelihood ({})\n", report["task"].get<std::string>(), bound_name(paradigm));
  print_accuracy("accuracy", report);
  print_accuracy("by length", report["per_character"]);
  print_text("rows       {}, {} forward passes\nseconds    {:.2f}\n", result.rows, result.forward_passes,
             result.seconds);
}

void choose_by_likelihood(const EvalCommandFlags& flags, const ChoiceBenchmark& benchmark, const Shots& shots,
                          const std::vector<ChoiceItem>& items, const EvaluationModels& models,
                          const CLI::App& command) {
  for (const char* const name : {"--guide", "--judge", "--show", "--batch"}) {
    if (command.count(name) > 0) {
      throw InputError("{}: has no effect with --scoring likelihood, which generates nothing", name);
    }
  }
  const EvaluatedModel model = models.evaluated();
  const Paradigm paradigm = model.model->config().paradigm();
  check_likelihood_settings(flags, paradigm, false);
  const BoundSettings settings = bound_settings(flags, command, paradigm);
  OutFile out(flags.out);
  ProgressBar bar("Scoring");
  const auto count = static_cast<int64_t>(items.size());
  const ChoiceLikelihoods result =
      choice_likelihoods(model, benchmark, shots, items, settings,
                         [&](int32_t done) { bar.update(done, static_cast<int32_t>(count)); });
  bar.clear();
  int64_t correct = 0, correct_per_character = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    const ChoiceLikelihood& item = result.items[i];
    correct += item.chosen == items[i].answer ? 1 : 0;
    correct_per_character += item.chosen_per_character == items[i].answer ? 1 : 0;
    out.write({{"question", items[i].question},
               {"options", items[i].options},
               {"expected", items[i].answer},
               {"chosen", item.chosen},
               {"chosen_per_character", item.chosen_per_character},
               {"nats", item.nats}});
  }
  out.commit();
  nlohmann::ordered_json json{{"task", benchmark.name},
                              {"scoring", "likelihood"},
                              {"kind", bound_name(paradigm)},
                              {"samples", count}};
  json.update(accuracy_json(correct, count));
  json["per_character"] = accuracy_json(correct_per_character, count);
  json.update(
      {{"forward_passes", result.forward_passes}, {"rows", result.rows}, {"seconds", result.seconds}});
  nlohmann::ordered_json given = given_options(flags.settings.generation);
  given["seed"] = settings.seed;
  if (!is_exact(paradigm)) given["draws"] = settings.draws;
  given["shots"] = flags.shots;
  json["settings"] = std::move(given);
  if (flags.json) {
    print_data("{}", as_line(json));
    return;
  }
  print_likelihood_report(json, result, paradigm);
}

void choose_by_generation(const EvalCommandFlags& flags, const ChoiceBenchmark& benchmark, const Shots& shots,
                          const std::vector<ChoiceItem>& items, const EvaluationModels& models,
                          const CLI::App& command) {
  if (command.count("--draws") > 0) {
    throw InputError("--draws {}: has no effect with --scoring generation", flags.draws);
  }
  std::vector<Question> questions;
  for (const ChoiceItem& item : items) {
    const std::string prompt = generation_prompt(benchmark, shots, item);
    questions.push_back({{prompt, option_name(benchmark.generation, item.answer)}, {{"user", prompt}}});
  }
  OutFile out(flags.out);
  Evaluation evaluation = ask(
      models, std::move(questions), [](const auto&, auto) { return false; }, benchmark.gen_length);
  int64_t unanswered = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    SampleRecord& record = evaluation.records[i];
    const std::optional<size_t> chosen = chosen_option(benchmark, items[i], record.result.text);
    record.correct = chosen == items[i].answer;
    unanswered += chosen ? 0 : 1;
    nlohmann::ordered_json json = to_json(record);
    json["chosen"] = chosen ? nlohmann::ordered_json(option_name(benchmark.generation, *chosen)) : nullptr;
    out.write(json);
  }
  out.commit();
  show_failures(evaluation, flags.show);
  if (!flags.json) {
    print_report(evaluation);
    print_text("unanswered {} of {}\n", unanswered, items.size());
    return;
  }
  nlohmann::ordered_json json = to_json(evaluation);
  json["scoring"] = "generation";
  json["unanswered"] = unanswered;
  json["settings"]["shots"] = flags.shots;
  print_data("{}", as_line(json));
}

}  // namespace

void eval_choices(const EvalCommandFlags& flags, const ChoiceBenchmark& benchmark, const CLI::App& command) {
  const uint64_t seed = flags.settings.generation.seed.value_or(0);
  std::vector<ChoiceItem> items = read_choices(benchmark, flags.data, seed);
  keep_first(items, flags, command);
  std::vector<ChoiceItem> solved;
  if (flags.shots > 0) solved = read_choices(benchmark, flags.shots_data, seed);
  const Shots shots{solved, static_cast<size_t>(flags.shots), flags.shots_data};
  const EvaluationModels models(flags);
  const bool is_chat = !models.evaluated().chat_template.is_none();
  if (scores_likelihood(flags, benchmark, is_chat)) {
    return choose_by_likelihood(flags, benchmark, shots, items, models, command);
  }
  if (flags.shots > 0 && !benchmark.generation_shots) {
    throw InputError("--shots {}: --task {} shows solved questions with --scoring likelihood alone",
                     flags.shots, benchmark.name);
  }
  choose_by_generation(flags, benchmark, shots, items, models, command);
}

}  // namespace lacuna
