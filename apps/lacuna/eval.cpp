#include <fmt/core.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/error.h"
#include "commands.h"
#include "evaluation.h"

namespace lacuna {
namespace {

struct EvalCommandFlags : EvalFlags {
  bool json = false;
  int32_t show = 0;
  std::string out;
};

std::string as_line(const nlohmann::ordered_json& json) {
  // Tokens may end inside a character; JSON cannot.
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

class RecordsFile {
 public:
  explicit RecordsFile(const std::string& path) : path_(path), stream_(path) { check(); }

  void write(const Evaluation& evaluation) {
    for (const SampleRecord& record : evaluation.records) stream_ << as_line(to_json(record));
    stream_.flush();
    check();
  }

 private:
  void check() const {
    if (!stream_) throw InputError("--out {}: cannot be written", path_);
  }

  std::string path_;
  std::ofstream stream_;
};

void show_failures(const Evaluation& evaluation, int32_t most) {
  int32_t shown = 0;
  for (const SampleRecord& record : evaluation.records) {
    if (record.correct) continue;
    if (shown++ == most) return;
    fmt::print(
        stderr, "prompt:   {}\nanswer:   {}\nexpected: {}\n\n", record.sample.prompt,
        nlohmann::json(record.result.text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
        record.sample.answer);
  }
}

void print_report(const Evaluation& evaluation) {
  const StepCost cost = evaluation.total_cost();
  const StepCost baseline = evaluation.total_baseline();
  const double saved =
      baseline.rows > 0 ? 1 - static_cast<double>(cost.rows) / static_cast<double>(baseline.rows) : 0;
  fmt::print("task       {}\n", evaluation.settings.task);
  const Interval accuracy = evaluation.accuracy_interval();
  fmt::print("accuracy   {:.4f} ({} of {}), {:.4f} to {:.4f} (95%)\n", evaluation.accuracy(),
             evaluation.num_correct(), evaluation.records.size(), accuracy.low, accuracy.high);
  fmt::print("steps      {:.1f} per sample, {} forward passes\n", evaluation.mean_steps(),
             evaluation.forward_passes);
  fmt::print("rows       {}, {:.1f}% saved\n", cost.rows, 100 * saved);
  fmt::print("seconds    {:.2f}\n", evaluation.seconds);
  fmt::print("tokens/s   {:.1f} of answers, {:.1f} of canvas\n", evaluation.tokens_per_second(),
             evaluation.canvas_tokens_per_second());
  if (!evaluation.judgement) return;
  const Judgement& judgement = *evaluation.judgement;
  fmt::print(
      "judge      perplexity {:.4f} over {} tokens; distinct {:.3f}, {:.3f}, {:.3f}; {:.1f}% repeated\n",
      judgement.perplexity(), judgement.tokens, judgement.distinct[0], judgement.distinct[1],
      judgement.distinct[2], 100 * judgement.repetition);
}

void eval(const EvalCommandFlags& flags) {
  check_options(find_task(flags.settings.task), flags.settings.task_options);  // before --out is made
  std::optional<RecordsFile> records;
  if (!flags.out.empty()) records.emplace(flags.out);
  const Evaluation evaluation = run_evaluation(flags);
  if (records) records->write(evaluation);
  show_failures(evaluation, flags.show);
  if (flags.json) {
    fmt::print("{}", as_line(to_json(evaluation)));
  } else {
    print_report(evaluation);
  }
}

}  // namespace

void add_eval_command(CLI::App& program) {
  auto flags = std::make_shared<EvalCommandFlags>();
  CLI::App* command = program.add_subcommand("eval", "Measure how often a model answers a task right");
  add_eval_flags(*command, *flags);
  command->add_flag("--json", flags->json, "Print one JSON object")->group("Output");
  command->add_option("--show", flags->show, "Print this many failures to standard error")
      ->check(CLI::Range(0, 1'000'000))
      ->group("Output");
  command->add_option("--out", flags->out, "Write one JSON object per sample to this file")->group("Output");
  command->footer(
      "The seed chooses the samples, and sample i is generated with seed + i. Without --gen-length, as many "
      "positions are generated as the task's longest answer needs.");
  command->callback([flags] { eval(*flags); });
}

}  // namespace lacuna
