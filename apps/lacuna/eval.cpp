#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "commands.h"
#include "eval/evaluate.h"
#include "generation_flags.h"
#include "loading.h"
#include "progress_bar.h"

namespace lacuna {
namespace {

struct EvalFlags : GuidedModelFlags {
  EvaluationSettings settings;
  bool raw = false;
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
  fmt::print("accuracy   {:.4f} ({} of {})\n", evaluation.accuracy(), evaluation.num_correct(),
             evaluation.records.size());
  fmt::print("steps      {:.1f} per sample, {} forward passes\n", evaluation.mean_steps(),
             evaluation.forward_passes);
  fmt::print("rows       {}, {:.1f}% saved\n", cost.rows, 100 * saved);
  fmt::print("seconds    {:.2f}\n", evaluation.seconds);
  fmt::print("tokens/s   {:.1f} of answers, {:.1f} of canvas\n", evaluation.tokens_per_second(),
             evaluation.canvas_tokens_per_second());
}

void eval(const EvalFlags& flags) {
  find_task(flags.settings.task);  // before the weights are read
  const ModelSource source = find_model(flags.model);
  if (!has_tokenizer(source.folder)) {
    throw InputError("{} has no tokenizer; the tasks are texts", flags.model);
  }
  const Tokenizer tokenizer = Tokenizer::load(source.folder);
  const ChatTemplate chat_template = flags.raw ? ChatTemplate{} : load_chat_template(source.folder);
  std::optional<RecordsFile> records;
  if (!flags.out.empty()) records.emplace(flags.out);

  const std::unique_ptr<GuideSource> guide = find_guide(flags, {source.config, &tokenizer, chat_template});
  const LoadedModel loaded = load_model(flags, source);
  EvaluatedModel model{loaded.model, tokenizer, chat_template};
  if (guide) {
    model.guide = &guide->guide;
    model.guide_model = load_guide(flags, guide.get(), loaded);
  }
  ProgressBar bar("Answering");
  const Evaluation evaluation = evaluate(model, loaded.context(), flags.settings,
                                         [&](int32_t done) { bar.update(done, flags.settings.samples); });
  bar.clear();

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
  auto flags = std::make_shared<EvalFlags>();
  CLI::App* command = program.add_subcommand("eval", "Measure how often a model answers a task right");
  add_model_flags(*command, *flags);
  add_guide_flag(*command, flags->guide);
  std::string names;
  for (const Task& task : tasks()) names += fmt::format("{}{}", names.empty() ? "" : ", ", task.name);
  command->add_option("--task", flags->settings.task, names)->required()->group("Task");
  command->add_option("--samples", flags->settings.samples, "Samples of the test split (default 100)")
      ->check(CLI::Range(1, 1'000'000))
      ->group("Task");
  command->add_option("--batch", flags->settings.batch, "Samples that share each forward pass (default 8)")
      ->check(CLI::Range(1, 4096))
      ->group("Task");
  command->add_flag("--raw", flags->raw, "Apply no chat template")->group("Task");
  add_generation_flags(*command, flags->settings.generation);
  command->add_flag("--json", flags->json, "Print one JSON object")->group("Output");
  command->add_option("--show", flags->show, "Print this many failures to standard error")
      ->check(CLI::Range(0, 1'000'000))
      ->group("Output");
  command->add_option("--out", flags->out, "Write one JSON object per sample to this file")->group("Output");
  command->footer(fmt::format(
      "The seed chooses the samples, and sample i is generated with seed + i. Without --gen-length, "
      "{} positions are generated.",
      kEvaluationGenLength));
  command->callback([flags] { eval(*flags); });
}

}  // namespace lacuna
