#include "evaluation.h"

#include <fmt/core.h>

#include <memory>
#include <utility>

#include "base/error.h"
#include "generation_flags.h"
#include "progress_bar.h"

namespace lacuna {

void add_task_option_flags(CLI::App& command, TaskOptions& options) {
  command
      .add_option("--length", options.length,
                  fmt::format("Tokens of a prompt of retrieval, {} to {} (default {})", kMinLength,
                              kMaxLength, kDefaultLength))
      ->group("Task");
  command
      .add_option("--depth", options.depth,
                  "Place of the requested fact of retrieval: 0 first, 1 last (default: sampled uniformly)")
      ->group("Task");
  command
      .add_option("--difficulty", options.difficulty,
                  fmt::format("1 to {}: changes, things, people, facts or sentences (default: the task's own "
                              "mixture)",
                              kMaxDifficulty))
      ->group("Task");
}

void add_eval_flags(CLI::App& command, EvalFlags& flags) {
  add_model_flags(command, flags);
  add_guide_flag(command, flags.guide);
  command.add_option("--judge", flags.judge,
                     "Autoregressive model that measures the perplexity of the answers; one with another "
                     "tokenizer reads their text");
  command.add_option("--task", flags.settings.task, task_names())->required()->group("Task");
  add_task_option_flags(command, flags.settings.task_options);
  command.add_option("--samples", flags.settings.samples, "Samples of the test split (default 100)")
      ->check(CLI::Range(1, 1'000'000))
      ->group("Task");
  command.add_option("--batch", flags.settings.batch, "Samples that share each forward pass (default 8)")
      ->check(CLI::Range(1, 4096))
      ->group("Task");
  command.add_flag("--raw", flags.raw, "Apply no chat template")->group("Task");
  add_generation_flags(command, flags.settings.generation);
}

namespace {

Tokenizer load_tokenizer(const std::string& model, const ModelSource& source) {
  if (!has_tokenizer(source.folder)) throw InputError("{} has no tokenizer; the tasks are texts", model);
  return Tokenizer::load(source.folder);
}

/// The settings of the evaluation. Also sets the formats in `flags`.
EvaluationSettings settings_of(EvalFlags& flags, const ModelSource& source, const GuideSource* guide) {
  EvaluationSettings settings = flags.settings;
  settings.generation = resolve_run(flags, source, guide, settings.generation);
  return settings;
}

}  // namespace

EvaluationModels::EvaluationModels(EvalFlags flags)
    : source_(find_model(flags)),
      tokenizer_(load_tokenizer(flags.model, source_)),
      chat_template_(flags.raw ? ChatTemplate{} : load_chat_template(source_.folder)),
      guide_(find_guide(flags, {source_.config, &tokenizer_, chat_template_})),
      judge_(find_judge(flags.judge, flags, {source_.config, &tokenizer_, chat_template_}, true)),
      settings_(settings_of(flags, source_, guide_.get())),
      loaded_(load_model(flags, source_)) {
  if (guide_) guide_model_ = load_guide(flags, guide_.get(), loaded_);
  if (judge_) judge_model_ = load_guide(flags, judge_.get(), loaded_);
}

EvaluatedModel EvaluationModels::evaluated() const {
  EvaluatedModel model{loaded_.model, tokenizer_, chat_template_};
  model.guide = guide_ ? &guide_->guide : nullptr;
  model.guide_model = guide_model_;
  model.judge = judge_ ? &judge_->guide : nullptr;
  model.judge_model = judge_model_;
  return model;
}

Evaluation run_evaluation(const EvalFlags& flags) {
  check_options(find_task(flags.settings.task), flags.settings.task_options);
  const EvaluationModels models(flags);
  ProgressBar bar("Answering");
  return evaluate(models.evaluated(), models.settings(),
                  [&](int32_t done) { bar.update(done, flags.settings.samples); });
}

}  // namespace lacuna
