// lacuna eval --task longbench.
#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.h"
#include "eval/interval.h"
#include "eval/longbench.h"
#include "eval_command.h"
#include "terminal.h"

namespace lacuna {
namespace {

constexpr int32_t kMaxPromptLength = 1 << 20;  // tokens

/// The data set's prompt template; empty for the plain one.
std::string form_of(const EvalCommandFlags& flags, const LongBenchTask& task) {
  if (flags.templates.empty()) return {};
  const auto forms = read_longbench_templates(flags.templates);
  const auto found = forms.find(task.name);
  if (found == forms.end()) {
    throw InputError("--templates {}: expected a prompt for '{}'", flags.templates, task.name);
  }
  return found->second;
}

nlohmann::ordered_json scores_json(const std::vector<RatioPart>& scores, uint64_t seed) {
  double sum = 0;
  for (const RatioPart& score : scores) sum += score.numerator;
  const Interval interval = bootstrap_interval(scores, seed);
  return {{"score", sum / static_cast<double>(scores.size())},
          {"score_low", interval.low},
          {"score_high", interval.high}};
}

}  // namespace

void eval_longbench(EvalCommandFlags flags, const CLI::App& command) {
  const std::optional<int32_t> length = std::exchange(flags.settings.task_options.length, {});
  if (length && (*length < 2 || *length > kMaxPromptLength)) {
    throw InputError("--length {}: expected 2 to {} tokens of a prompt", *length, kMaxPromptLength);
  }
  LongBenchFile file = read_longbench(flags.data);
  keep_first(file.items, flags, command);
  const LongBenchTask& task = *file.task;
  const std::string form = form_of(flags, task);
  OutFile out(flags.out);

  const EvaluationModels models(flags);
  std::vector<Question> questions;
  for (const LongBenchItem& item : file.items) {
    std::string prompt = longbench_prompt(form, item);
    if (length) {
      prompt = without_middle(models.evaluated().tokenizer, std::move(prompt), static_cast<size_t>(*length));
    }
    questions.push_back({{prompt, item.answers.front()}, {{"user", prompt}}});
  }
  Evaluation evaluation = ask(
      models, std::move(questions), [](const auto&, auto) { return false; }, task.gen_length);
  std::vector<RatioPart> scores;
  for (size_t i = 0; i < file.items.size(); ++i) {
    SampleRecord& record = evaluation.records[i];
    scores.push_back({longbench_score(task, file.items[i], record.result.text), 1});
    nlohmann::ordered_json json = to_json(record);
    json.erase("correct");
    json["score"] = scores.back().numerator;
    out.write(json);
  }
  out.commit();
  show_failures(evaluation, flags.show);
  const nlohmann::ordered_json score = scores_json(scores, flags.settings.generation.seed.value_or(0));
  if (!flags.json) {
    print_text("task       longbench {}, {} samples\n", task.name, scores.size());
    print_text("{:<10} {:.4f}, {:.4f} to {:.4f} (95%)\n", name_of(task.metric), score["score"].get<double>(),
               score["score_low"].get<double>(), score["score_high"].get<double>());
    print_text("rows       {}\nseconds    {:.2f}\n", evaluation.total_cost().rows, evaluation.seconds);
    return;
  }
  nlohmann::ordered_json json = to_json(evaluation);
  remove_accuracy(json);
  json["dataset"] = task.name;
  json["metric"] = name_of(task.metric);
  json.update(score);
  if (length) json["settings"]["length"] = *length;
  print_data("{}", as_line(json));
}

}  // namespace lacuna
