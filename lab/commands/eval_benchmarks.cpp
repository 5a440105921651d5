// lacuna eval --task gsm8k, humaneval, math, mbpp and mt-bench.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.h"
#include "engine/stop.h"
#include "eval/benchmarks.h"
#include "eval/math_answers.h"
#include "eval/program_runner.h"
#include "eval_command.h"
#include "progress_bar.h"
#include "tasks/written_numbers.h"
#include "terminal.h"

namespace lacuna {
namespace {

// Defaults of --gen-length.
constexpr int32_t kProblemLength = 256;  // LLaDA's and Fast-dLLM's GSM8K
constexpr int32_t kCodeLength = 512;     // LLaDA's HumanEval, ReFusion's MBPP
constexpr int32_t kMathLength = 512;     // ReFusion's MATH
constexpr int32_t kChatLength = 1024;    // FastChat's limit for MT-bench

void print_answers(const char* what, size_t count, const Evaluation& evaluation) {
  print_text("{} answers to {}\nrows       {}\nseconds    {:.2f}\n", count, what,
             evaluation.total_cost().rows, evaluation.seconds);
}

/// The question of a GSM8K problem in the chosen form.
Question gsm8k_question(const std::vector<WordProblem>& solved, const WordProblem& problem,
                        bool is_flashdlm) {
  if (!is_flashdlm) {
    const std::string prompt = gsm8k_prompt(solved, problem.question);
    return {{prompt, problem.number}, {{"user", prompt}}};
  }
  Question question{{"", problem.number}, {}};
  for (const std::string& turn : gsm8k_flashdlm_turns(solved, problem.question)) {
    question.sample.prompt += turn + "\n\n";  // prompt for a model without a chat template
    question.messages.push_back({question.messages.size() % 2 == 0 ? "user" : "assistant", turn});
  }
  return question;
}

void eval_gsm8k(const EvalCommandFlags& flags, const CLI::App& command) {
  std::vector<WordProblem> problems = read_gsm8k(flags.data);
  keep_first(problems, flags, command);
  std::vector<WordProblem> solved;
  if (flags.shots > 0) {
    solved = read_gsm8k(flags.shots_data);
    if (solved.size() < static_cast<size_t>(flags.shots)) {
      throw InputError("--shots {}: {} holds {}", flags.shots, flags.shots_data, solved.size());
    }
    solved.resize(static_cast<size_t>(flags.shots));
  }
  OutFile out(flags.out);
  std::vector<Question> questions;
  const bool is_flashdlm = flags.prompts == "flashdlm";
  for (const WordProblem& problem : problems)
    questions.push_back(gsm8k_question(solved, problem, is_flashdlm));
  const EvaluationModels models(flags);
  const auto answer = [](std::string_view text) { return before_stop(text, gsm8k_stops()); };
  const Evaluation evaluation = ask(
      models, std::move(questions),
      [&](const Sample& sample, std::string_view text) {
        return (is_flashdlm ? flashdlm_number(text) : last_number(answer(text))) == sample.answer;
      },
      kProblemLength);
  const auto is_strict = [&](const SampleRecord& record) {
    return strict_number(answer(record.result.text)) == record.sample.answer;
  };
  const auto strict = std::count_if(evaluation.records.begin(), evaluation.records.end(), is_strict);
  const auto count = static_cast<int64_t>(evaluation.records.size());
  for (const SampleRecord& record : evaluation.records) {
    nlohmann::ordered_json json = to_json(record);
    json["strict"] = is_strict(record);
    out.write(json);
  }
  out.commit();
  show_failures(evaluation, flags.show);
  if (!flags.json) {
    print_report(evaluation);
    print_text("strict     {} of {} after ####\n", strict, count);
    return;
  }
  nlohmann::ordered_json json = to_json(evaluation);
  json["strict"] = accuracy_json(strict, count);
  json["settings"]["shots"] = flags.shots;
  json["settings"]["prompts"] = flags.prompts;
  print_data("{}", as_line(json));
}

void eval_math(const EvalCommandFlags& flags, const CLI::App& command) {
  std::vector<MathProblem> problems = read_math(flags.data);
  keep_first(problems, flags, command);
  OutFile out(flags.out);
  const EvaluationModels models(flags);
  std::vector<Question> questions;
  const bool is_chat = !models.evaluated().chat_template.is_none();
  for (const MathProblem& problem : problems) {
    const std::string prompt = is_chat ? math_request(problem) : math_prompt(problem);
    questions.push_back({{prompt, problem.answer}, {{"user", prompt}}});
  }
  const Evaluation evaluation = ask(
      models, std::move(questions),
      [](const Sample& sample, std::string_view text) {
        const std::optional<std::string> found = final_math_answer(text);
        return found && normalized_math(*found) == normalized_math(sample.answer);
      },
      kMathLength);
  write_and_print(evaluation, flags, out);
}

/// A benchmark whose answers are programs.
struct CodeBenchmark {
  std::vector<CodeProblem> (*read)(const std::string& path);
  std::string (*request)(const CodeProblem& problem);  ///< to a chat model
  std::string (*prompt)(const CodeProblem& problem);   ///< text for a base model to continue
  std::string (*completion)(const CodeProblem& problem, std::string_view text, bool is_chat);
  std::string (*program)(const CodeProblem& problem, std::string_view completion);
};

std::string own_prompt(const CodeProblem& problem) {
  return problem.prompt;
}

constexpr CodeBenchmark kHumanEval{read_humaneval, humaneval_request, own_prompt, humaneval_completion,
                                   humaneval_program};
constexpr CodeBenchmark kMbpp{
    read_mbpp, own_prompt, mbpp_prompt,
    [](const CodeProblem&, std::string_view text, bool is_chat) { return mbpp_completion(text, is_chat); },
    mbpp_program};

void eval_code(const EvalCommandFlags& flags, const CodeBenchmark& benchmark, const CLI::App& command) {
  std::vector<CodeProblem> problems = benchmark.read(flags.data);
  keep_first(problems, flags, command);
  if (flags.out.empty() && flags.run_tests.empty()) {
    throw InputError("--task {}: expected --out for the completions, or --run-tests", flags.settings.task);
  }
  if (!flags.run_tests.empty()) {
    check_python(flags.run_tests);
    if (const std::string missing = limits_that_are_missing(); !missing.empty())
      print_message("lacuna: --run-tests: {}\n", missing);
  }
  OutFile out(flags.out);
  const EvaluationModels models(flags);
  const bool is_chat = !models.evaluated().chat_template.is_none();
  std::vector<Question> questions;
  for (const CodeProblem& problem : problems) {
    const std::string prompt = is_chat ? benchmark.request(problem) : benchmark.prompt(problem);
    questions.push_back({{prompt, ""}, {{"user", prompt}}});
  }
  Evaluation evaluation = ask(
      models, std::move(questions), [](const auto&, auto) { return false; }, kCodeLength);
  ProgressBar bar("Testing");
  for (size_t i = 0; i < problems.size(); ++i) {
    SampleRecord& record = evaluation.records[i];
    const std::string completion = benchmark.completion(problems[i], record.result.text, is_chat);
    if (!flags.run_tests.empty()) {
      record.correct = passes(flags.run_tests, benchmark.program(problems[i], completion));
      bar.update(static_cast<int32_t>(i) + 1, static_cast<int32_t>(problems.size()));
    }
    out.write({{"task_id", problems[i].task_id}, {"completion", completion}});
  }
  bar.clear();
  out.commit();
  if (flags.json) {
    nlohmann::ordered_json json = to_json(evaluation);
    if (flags.run_tests.empty()) remove_accuracy(json);
    print_data("{}", as_line(json));
  } else if (flags.run_tests.empty()) {
    print_answers(flags.settings.task.c_str(), problems.size(), evaluation);
  } else {
    print_report(evaluation);
  }
}

/// Questions of the next turn, with the earlier turns and answers.
std::vector<Question> next_turn(const std::vector<ChatQuestion>& asked,
                                const std::vector<std::vector<std::string>>& answers, size_t turn,
                                bool is_chat, std::vector<size_t>& who) {
  std::vector<Question> questions;
  for (size_t i = 0; i < asked.size(); ++i) {
    if (asked[i].turns.size() <= turn) continue;
    who.push_back(i);
    std::vector<Message> messages;
    std::string text;  // prompt for a model without a chat template
    for (size_t t = 0; t <= turn; ++t) {
      messages.push_back({"user", asked[i].turns[t]});
      text += asked[i].turns[t];
      if (t == turn) break;
      messages.push_back({"assistant", answers[i][t]});
      text += "\n\n" + answers[i][t] + "\n\n";
    }
    if (!is_chat) messages = {{"user", text}};
    questions.push_back({{asked[i].turns[turn], ""}, std::move(messages)});
  }
  return questions;
}

void eval_mt_bench(const EvalCommandFlags& flags, const CLI::App& command) {
  std::vector<ChatQuestion> asked = read_mt_bench(flags.data);
  keep_first(asked, flags, command);
  if (flags.out.empty()) throw InputError("--task mt-bench: expected --out for the answers");
  OutFile out(flags.out);
  const EvaluationModels models(flags);
  const bool is_chat = !models.evaluated().chat_template.is_none();
  std::vector<std::vector<std::string>> answers(asked.size());
  nlohmann::ordered_json turns = nlohmann::ordered_json::array();
  Evaluation last;
  for (size_t turn = 0;; ++turn) {
    std::vector<size_t> who;
    std::vector<Question> questions = next_turn(asked, answers, turn, is_chat, who);
    if (questions.empty() || (flags.turns > 0 && turn == static_cast<size_t>(flags.turns))) break;
    last = ask(
        models, std::move(questions), [](const auto&, auto) { return false; }, kChatLength);
    for (size_t i = 0; i < who.size(); ++i) answers[who[i]].push_back(last.records[i].result.text);
    nlohmann::ordered_json json = to_json(last);
    remove_accuracy(json);
    turns.push_back(std::move(json));
  }
  for (size_t i = 0; i < asked.size(); ++i) {
    nlohmann::ordered_json choice{{"index", 0}, {"turns", answers[i]}};
    out.write({{"question_id", asked[i].id},
               {"answer_id", fmt::format("{}-{}", flags.model, asked[i].id)},
               {"model_id", flags.model},
               {"choices", nlohmann::ordered_json::array({std::move(choice)})},
               {"category", asked[i].category}});
  }
  out.commit();
  if (flags.json) {
    print_data("{}", as_line({{"task", flags.settings.task}, {"questions", asked.size()}, {"turns", turns}}));
  } else {
    print_answers("mt-bench", asked.size(), last);
  }
}

}  // namespace

Evaluation ask(const EvaluationModels& models, std::vector<Question> questions, const Checker& check,
               int32_t length) {
  EvaluationSettings settings = models.settings();
  AnswerLength& given = settings.generation.gen_length;
  if (!given && !given.is_auto) given = length;
  ProgressBar bar("Answering");
  const auto count = static_cast<int32_t>(questions.size());
  return evaluate(models.evaluated(), settings, std::move(questions), check,
                  [&](int32_t done) { bar.update(done, count); });
}

void remove_accuracy(nlohmann::ordered_json& json) {
  for (const char* const key : {"correct", "accuracy", "accuracy_low", "accuracy_high"}) json.erase(key);
}

nlohmann::ordered_json accuracy_json(int64_t correct, int64_t count) {
  const Interval interval = wilson_interval(correct, count);
  return {{"correct", correct},
          {"accuracy", static_cast<double>(correct) / static_cast<double>(count)},
          {"accuracy_low", interval.low},
          {"accuracy_high", interval.high}};
}

void eval_benchmark(const EvalCommandFlags& flags, const CLI::App& command) {
  if (flags.settings.task == "gsm8k") return eval_gsm8k(flags, command);
  if (flags.settings.task == "math") return eval_math(flags, command);
  if (flags.settings.task == "humaneval") return eval_code(flags, kHumanEval, command);
  if (flags.settings.task == "mbpp") return eval_code(flags, kMbpp, command);
  eval_mt_bench(flags, command);
}

}  // namespace lacuna
