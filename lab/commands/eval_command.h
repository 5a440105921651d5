// Declarations shared by the parts of `lacuna eval`.
#pragma once

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/written_file.h"
#include "eval/bound.h"
#include "eval/choices.h"
#include "evaluation.h"

namespace lacuna {

struct EvalCommandFlags : EvalFlags {
  bool json = false;
  int32_t show = 0;
  std::string out;
  std::string data;
  int32_t shots = 0;
  std::string shots_data;
  int32_t turns = 0;                ///< mt-bench: number of turns; 0: all
  std::string prompts = "harness";  ///< gsm8k: harness or flashdlm
  std::string run_tests;            ///< a Python interpreter; empty: tests do not run
  std::string text_task = "stories";
  int32_t draws = 32;
  std::string scoring;    ///< multiple choice: likelihood or generation; empty: depends on the model
  std::string templates;  ///< longbench: the file of prompts
  bool fits = false;      ///< decisions: fit temperatures and store them in the model's folder
};

/// Values of --task besides the generated tasks.
inline constexpr std::string_view kPerplexityTask = "perplexity";
inline constexpr std::string_view kLongBenchTask = "longbench";
inline constexpr std::string_view kContinuationsTask = "continuations";

/// Whether the task is a published benchmark with questions from --data.
bool is_benchmark(std::string_view task);

/// One line of JSON. A replacement character stands for incomplete UTF-8, in which token sequences may end.
std::string as_line(const nlohmann::ordered_json& json);

/// The file of --out, a line for each sample. It is created before the model is loaded, so that a wrong path
/// fails early. Without a path nothing is written.
class OutFile {
 public:
  /// Throws InputError if the file cannot be created.
  explicit OutFile(const std::string& path) {
    if (!path.empty()) file_.emplace(path);
  }

  void write(const nlohmann::ordered_json& record) {
    if (file_) file_->write(as_line(record));
  }
  /// Completes the file after the last sample.
  void commit() {
    if (file_) file_->commit();
  }

 private:
  std::optional<WrittenFile> file_;
};

/// Keeps the first --samples items if the flag was given.
template <typename Item>
void keep_first(std::vector<Item>& items, const EvalCommandFlags& flags, const CLI::App& command) {
  if (command.count("--samples") == 0) return;
  items.resize(std::min(items.size(), static_cast<size_t>(flags.settings.samples)));
}

/// Evaluates with a progress bar; `length` is the default of --gen-length.
Evaluation ask(const EvaluationModels& models, std::vector<Question> questions, const Checker& check,
               int32_t length);
void remove_accuracy(nlohmann::ordered_json& json);

/// correct, accuracy and its 95% interval.
nlohmann::ordered_json accuracy_json(int64_t correct, int64_t count);

/// Throws for generation settings that likelihoods do not use. `has_canvas`: --gen-length is used.
void check_likelihood_settings(const EvalCommandFlags& flags, Paradigm paradigm, bool has_canvas);
/// Throws for --draws if the likelihood is exact.
BoundSettings bound_settings(const EvalCommandFlags& flags, const CLI::App& command, Paradigm paradigm);

/// Prints the totals of an evaluation.
void print_report(const Evaluation& evaluation);
void print_judgement(const Judgement& judgement, uint64_t seed);
void show_failures(const Evaluation& evaluation, int32_t most);
/// Writes each sample to --out and prints the totals, with --json as a line of JSON.
void write_and_print(const Evaluation& evaluation, const EvalCommandFlags& flags, OutFile& out);

/// --task perplexity.
void eval_perplexity(const EvalCommandFlags& flags, const CLI::App& command);
/// --task continuations.
void eval_continuations(EvalCommandFlags flags, const CLI::App& command);
/// --task decisions.
void eval_decisions(const EvalCommandFlags& flags);
/// --task gsm8k, humaneval, math, mbpp and mt-bench.
void eval_benchmark(const EvalCommandFlags& flags, const CLI::App& command);
/// --task with the name of a multiple-choice benchmark.
void eval_choices(const EvalCommandFlags& flags, const ChoiceBenchmark& benchmark, const CLI::App& command);
/// --task longbench.
void eval_longbench(EvalCommandFlags flags, const CLI::App& command);

}  // namespace lacuna
