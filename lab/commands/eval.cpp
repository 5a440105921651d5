#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "commands.h"
#include "eval/decisions.h"
#include "eval_command.h"
#include "terminal.h"

namespace lacuna {
namespace {

/// Throws for flags that the task would ignore.
void refuse_flags(const CLI::App& command, std::string_view task, std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    if (command.count(name) > 0) throw InputError("{}: has no effect with --task {}", name, task);
  }
}

/// Throws for flags that only other benchmarks use.
void check_benchmark_flags(const EvalCommandFlags& flags, const CLI::App& command) {
  const std::string& task = flags.settings.task;
  const bool is_choice = find_choice_benchmark(task) != nullptr;
  refuse_flags(command, task, {"--depth", "--difficulty", "--text-task"});
  if (task != kLongBenchTask) refuse_flags(command, task, {"--length", "--templates"});
  if (!is_choice) refuse_flags(command, task, {"--scoring", "--draws"});
  if (task != "gsm8k" && !is_choice) refuse_flags(command, task, {"--shots", "--shots-data"});
  if (task != "gsm8k") refuse_flags(command, task, {"--prompts"});
  const bool is_code = task == "humaneval" || task == "mbpp";
  if (!is_code) refuse_flags(command, task, {"--run-tests"});
  if (task != "mt-bench") refuse_flags(command, task, {"--turns"});
  if (task == "mt-bench" || is_code) refuse_flags(command, task, {"--show"});
  if (flags.data.empty()) throw InputError("--task {}: expected --data with its file", task);
  if (flags.shots > 0 && flags.shots_data.empty()) {
    throw InputError("--shots {}: expected --shots-data with the file that they come from", flags.shots);
  }
  if (flags.shots == 0 && !flags.shots_data.empty()) {
    throw InputError("--shots-data {}: expected --shots with it", flags.shots_data);
  }
}

void check_flags(const EvalCommandFlags& flags, const CLI::App& command) {
  const std::string& task = flags.settings.task;
  if (task == kDecisionsTask) {
    return refuse_flags(command, task,
                        {"--guide", "--judge", "--show", "--out", "--length", "--depth", "--difficulty",
                         "--shots", "--shots-data", "--prompts", "--turns", "--run-tests", "--data",
                         "--text-task", "--draws", "--scoring", "--templates"});
  }
  refuse_flags(command, task, {"--fit"});
  if (is_benchmark(task)) return check_benchmark_flags(flags, command);
  refuse_flags(
      command, task,
      {"--shots", "--shots-data", "--prompts", "--turns", "--run-tests", "--scoring", "--templates"});
  if (task == kContinuationsTask) {
    refuse_flags(command, task, {"--depth", "--difficulty", "--text-task", "--draws", "--show", "--raw"});
    if (flags.data.empty()) throw InputError("--task {}: expected --data with the prompts", task);
    if (flags.judge.empty()) throw InputError("--task {}: expected --judge, which reads the texts", task);
    return;
  }
  if (task == kPerplexityTask) {
    refuse_flags(command, task, {"--guide", "--judge", "--show", "--out", "--batch"});
  } else {
    refuse_flags(command, task, {"--data", "--text-task", "--draws"});
  }
}

}  // namespace

bool is_benchmark(std::string_view task) {
  return task == "gsm8k" || task == "humaneval" || task == "math" || task == "mbpp" || task == "mt-bench" ||
         task == kLongBenchTask || find_choice_benchmark(task) != nullptr;
}

std::string as_line(const nlohmann::ordered_json& json) {
  return dump_json(json) + '\n';
}

void show_failures(const Evaluation& evaluation, int32_t most) {
  int32_t shown = 0;
  for (const SampleRecord& record : evaluation.records) {
    if (record.correct) continue;
    if (shown++ == most) return;
    print_message("prompt:   {}\nanswer:   {}\nexpected: {}\n\n", record.sample.prompt,
                  dump_json(nlohmann::json(record.result.text)), record.sample.answer);
  }
}

void print_judgement(const Judgement& judgement, uint64_t seed) {
  const Interval interval = judgement.perplexity_interval(seed);
  print_text("judge      perplexity {:.4f} over {} tokens, {:.4f} to {:.4f} (95%); {:.4f} nats per byte\n",
             judgement.perplexity(), judgement.tokens, interval.low, interval.high,
             judgement.nats_per_byte());
  print_text("           distinct {:.3f}, {:.3f}, {:.3f}; {:.1f}% repeated\n", judgement.distinct[0],
             judgement.distinct[1], judgement.distinct[2], 100 * judgement.repetition);
}

void print_report(const Evaluation& evaluation) {
  const StepCost cost = evaluation.total_cost();
  print_text("task       {}\n", evaluation.settings.task);
  const Interval accuracy = evaluation.accuracy_interval();
  print_text("accuracy   {:.4f} ({} of {}), {:.4f} to {:.4f} (95%)\n", evaluation.accuracy(),
             evaluation.num_correct(), evaluation.records.size(), accuracy.low, accuracy.high);
  print_text("steps      {:.1f} per sample, {} forward passes\n", evaluation.mean_steps(),
             evaluation.forward_passes);
  print_text("rows       {}\n", describe_rows(cost, evaluation.total_baseline()));
  print_text("seconds    {:.2f}\n", evaluation.seconds);
  print_text("tokens/s   {:.1f} of answers, {:.1f} of canvas\n", evaluation.tokens_per_second(),
             evaluation.canvas_tokens_per_second());
  if (!evaluation.judgement) return;
  print_judgement(*evaluation.judgement, evaluation.settings.generation.seed.value_or(0));
}

void write_and_print(const Evaluation& evaluation, const EvalCommandFlags& flags, OutFile& out) {
  for (const SampleRecord& record : evaluation.records) out.write(to_json(record));
  out.commit();
  show_failures(evaluation, flags.show);
  if (flags.json) {
    print_data("{}", as_line(to_json(evaluation)));
  } else {
    print_report(evaluation);
  }
}

namespace {

void eval_task(const EvalCommandFlags& flags) {
  check_options(find_task(flags.settings.task), flags.settings.task_options);  // before --out is made
  OutFile out(flags.out);
  const Evaluation evaluation = run_evaluation(flags);
  write_and_print(evaluation, flags, out);
}

void eval(const EvalCommandFlags& flags, const CLI::App& command) {
  check_flags(flags, command);
  if (flags.settings.task == kPerplexityTask) {
    eval_perplexity(flags, command);
  } else if (flags.settings.task == kContinuationsTask) {
    eval_continuations(flags, command);
  } else if (flags.settings.task == kDecisionsTask) {
    eval_decisions(flags);
  } else if (const ChoiceBenchmark* const benchmark = find_choice_benchmark(flags.settings.task)) {
    eval_choices(flags, *benchmark, command);
  } else if (flags.settings.task == kLongBenchTask) {
    eval_longbench(flags, command);
  } else if (is_benchmark(flags.settings.task)) {
    eval_benchmark(flags, command);
  } else {
    eval_task(flags);
  }
}

std::string benchmark_names() {
  std::string names = "gsm8k, humaneval, math, mbpp, mt-bench, longbench";
  for (const ChoiceBenchmark& benchmark : choice_benchmarks()) names += fmt::format(", {}", benchmark.name);
  return names;
}

void add_benchmark_flags(CLI::App& command, EvalCommandFlags& flags) {
  const auto add = [&](const char* names, auto& field, const char* help) {
    return command.add_option(names, field, help)->group("Task");
  };
  add("--data", flags.data,
      "File of a published benchmark or of prompts for continuations (JSON lines, also .gz), or a text "
      "for perplexity");
  add("--shots", flags.shots, "gsm8k and multiple choice: solved questions before the question (default 0)")
      ->check(CLI::Range(0, 64));
  add("--shots-data", flags.shots_data,
      "File whose first questions (mmlu-pro: of the subject) are the solved ones of --shots");
  add("--scoring", flags.scoring,
      "Multiple choice: likelihood of the options, or generation of an explained answer "
      "(default: generation for models with a chat template)")
      ->check(CLI::IsMember({"likelihood", "generation"}));
  add("--templates", flags.templates,
      "longbench: its dataset2prompt.json (default: the context, then the input)");
  add("--prompts", flags.prompts,
      "gsm8k: whose prompts, harness (lm-evaluation-harness) or flashdlm (default harness)")
      ->check(CLI::IsMember({"harness", "flashdlm"}));
  add("--turns", flags.turns, "mt-bench: ask this many turns of each question (default: all)")
      ->check(CLI::Range(1, 100));
  add("--run-tests", flags.run_tests,
      "humaneval, mbpp: run the tests with this Python interpreter, with limits but without a sandbox");
  command
      .add_flag("--fit", flags.fits,
                "decisions: fit temperatures on as many other stories, and keep them in decisions.json of "
                "the model")
      ->group("Task");
  add("--text-task", flags.text_task, "perplexity: the task whose texts are scored (default stories)");
  add("--draws", flags.draws, "Likelihoods: random samples of the masks of each text (default 32)")
      ->check(CLI::Range(1, 1'000'000));
}

}  // namespace

void add_eval_command(CLI::App& program) {
  auto flags = std::make_shared<EvalCommandFlags>();
  CLI::App* command = program.add_subcommand("eval", "Measure how often a model answers a task right");
  add_eval_flags(*command, *flags);
  command->get_option("--task")->description(fmt::format(
      "{}; decisions; perplexity; with --data continuations, {}", task_names(), benchmark_names()));
  command->get_option("--length")
      ->description(
          "Tokens of a prompt: retrieval (default 1024), longbench (longer ones lose their middle), "
          "continuations (64); of a piece for perplexity (256)");
  add_benchmark_flags(*command, *flags);
  command->add_flag("--json", flags->json, "Print one JSON object")->group("Output");
  command->add_option("--show", flags->show, "Print this many failures to standard error")
      ->check(CLI::Range(0, 1'000'000))
      ->group("Output");
  command->add_option("--out", flags->out, "Write one JSON object per sample to this file")->group("Output");
  command->footer(
      "The seed chooses the samples, and sample i is generated with seed + i. Without --gen-length, as many "
      "positions are generated as the task's longest answer needs. docs/guide/evaluate.md has the rules of "
      "every task.");
  command->callback([flags, command] { eval(*flags, *command); });
}

}  // namespace lacuna
