// What `lacuna eval` measures, for every subcommand that measures it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "eval/evaluate.h"
#include "loading.h"

namespace lacuna {

struct EvalFlags : GuidedModelFlags {
  std::string judge;  ///< empty: none
  EvaluationSettings settings;
  bool raw = false;
};

/// Names of the generated tasks, with commas.
std::string task_names();

/// --length, --depth and --difficulty.
void add_task_option_flags(CLI::App& command, TaskOptions& options);

void add_eval_flags(CLI::App& command, EvalFlags& flags);

/// Loads the models that the flags name and evaluates, with progress bars. InputError, before the weights are
/// read where that can be.
Evaluation run_evaluation(const EvalFlags& flags);

}  // namespace lacuna
