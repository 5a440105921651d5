// The measurement of `lacuna eval`, shared by all subcommands that run it.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "eval/evaluate.h"
#include "loading.h"

namespace lacuna {

struct EvalFlags : GuidedModelFlags {
  std::string judge;  ///< empty: none
  EvaluationSettings settings;
  bool raw = false;
};

/// --length, --depth and --difficulty.
void add_task_option_flags(CLI::App& command, TaskOptions& options);

void add_eval_flags(CLI::App& command, EvalFlags& flags);

/// The models that the flags name, loaded. Reads configs and tokenizers first and weights last.
class EvaluationModels {
 public:
  explicit EvaluationModels(EvalFlags flags);
  EvaluationModels(const EvaluationModels&) = delete;
  EvaluationModels& operator=(const EvaluationModels&) = delete;

  /// The flags' settings, with those of a saved preset.
  const EvaluationSettings& settings() const { return settings_; }
  /// Views of this object's members; the object must outlive them.
  EvaluatedModel evaluated() const;

 private:
  ModelSource source_;
  Tokenizer tokenizer_;
  ChatTemplate chat_template_;
  std::unique_ptr<GuideSource> guide_, judge_;
  EvaluationSettings settings_;
  LoadedModel loaded_;
  std::shared_ptr<const BackendModel> guide_model_, judge_model_;
};

/// Loads the models that the flags name and evaluates, with progress bars. Throws InputError, if possible
/// before the weights are read.
Evaluation run_evaluation(const EvalFlags& flags);

}  // namespace lacuna
