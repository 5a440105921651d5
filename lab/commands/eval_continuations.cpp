// lacuna eval --task continuations.
#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.h"
#include "eval/continuations.h"
#include "eval_command.h"
#include "terminal.h"

namespace lacuna {
namespace {

// SureLock's paper takes prompts of 64 tokens and 64 to 512 new ones.
constexpr int32_t kPromptLength = 64;
constexpr int32_t kContinuationLength = 128;

}  // namespace

void eval_continuations(EvalCommandFlags flags, const CLI::App& command) {
  const int32_t length = std::exchange(flags.settings.task_options.length, {}).value_or(kPromptLength);
  if (length < 1 || length > kMaxContinuedTokens) {
    throw InputError("--length {}: expected 1 to {} tokens of a prompt", length, kMaxContinuedTokens);
  }
  std::vector<std::string> records = read_records(flags.data);
  keep_first(records, flags, command);
  OutFile out(flags.out);
  flags.raw = true;  // continuations use no chat template
  const EvaluationModels models(flags);
  std::vector<Question> questions;
  for (const std::string& record : records) {
    const std::string prompt = beginning_of(models.evaluated().tokenizer, record, length);
    questions.push_back({{prompt, ""}, {{"user", prompt}}});
  }
  const Evaluation evaluation = ask(
      models, std::move(questions), [](const auto&, auto) { return false; }, kContinuationLength);
  const Judgement& judgement = *evaluation.judgement;
  for (size_t i = 0; i < evaluation.records.size(); ++i) {
    nlohmann::ordered_json json = to_json(evaluation.records[i]);
    for (const char* const key : {"expected", "correct"}) json.erase(key);
    json["judge"] = {{"tokens", judgement.texts[i].tokens},
                     {"nats", judgement.texts[i].nats},
                     {"bytes", judgement.texts[i].bytes}};
    out.write(json);
  }
  out.commit();
  if (flags.json) {
    nlohmann::ordered_json json = to_json(evaluation);
    remove_accuracy(json);
    json["settings"]["length"] = length;
    print_data("{}", as_line(json));
    return;
  }
  print_text("task       continuations of {} prompts\n", evaluation.records.size());
  print_judgement(judgement, evaluation.settings.generation.seed.value_or(0));
  print_text("rows       {}\nseconds    {:.2f}\n", evaluation.total_cost().rows, evaluation.seconds);
}

}  // namespace lacuna
