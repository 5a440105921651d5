#include "engine/decide.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "commands.h"
#include "engine/inference_session.h"
#include "input.h"
#include "loading.h"
#include "numbers.h"
#include "terminal.h"
#include "wire/decision_json.h"
#include "words.h"

namespace lacuna {
namespace {

constexpr size_t kMaxFileValues = size_t{1} << 20;
constexpr int kBarColumns = 20;

struct DecideFlags : GuidedModelFlags {
  std::optional<std::string> state;
  std::optional<std::string> file;
  std::string questions_file;
  TemplateFlags prompt_template;
  DecisionBody typed;  // --question with --choice and --levels
  int32_t orders = 1;
  bool independent = false;
  int32_t draws = DecideRequest().draws;
  uint64_t seed = 0;
  bool json = false;
};

/// Splits a list such as "red, blue" into options.
std::vector<std::string> split_options(const std::string& list, std::string_view flag, size_t most) {
  std::vector<std::string> options;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    std::string option = list.substr(begin, end - begin);
    option.erase(0, option.find_first_not_of(' '));
    option.erase(option.find_last_not_of(' ') + 1);
    const bool is_new = std::find(options.begin(), options.end(), option) == options.end();
    if (option.empty() || !is_new)
      throw InputError("{} {}: expected different options between commas", flag, in_quotes(list));
    options.push_back(std::move(option));
    begin = end + 1;
  }
  if (options.size() < 2 || options.size() > most)
    throw InputError("{} {}: has {} options; expected 2 to {}", flag, in_quotes(list), options.size(), most);
  return options;
}

void add_question(DecisionBody& body, const std::string& text) {
  body.request.questions.push_back(make_predicate(text));
  body.names.emplace_back();
  body.options.emplace_back();
}

/// Adds the options of --choice or --levels to the preceding question.
void add_options(DecisionBody& body, QuestionKind kind, const std::string& list, std::string_view flag,
                 size_t most) {
  if (body.request.questions.empty() || !body.options.back().empty())
    throw InputError("{} {}: expected one --question before it", flag, in_quotes(list));
  DecisionQuestion& question = body.request.questions.back();
  question.kind = kind;
  question.options.clear();
  for (std::string& option : split_options(list, flag, most)) {
    body.options.back().emplace_back(option);
    question.options.push_back({std::move(option), {}});
  }
}

DecisionBody read_body(const DecideFlags& flags, const CLI::App& command) {
  DecisionBody body = flags.typed;
  if (flags.questions_file.empty() == body.request.questions.empty())
    throw InputError("expected --question or --questions; found {}",
                     body.request.questions.empty() ? "neither" : "both");
  if (!flags.questions_file.empty())
    body = read_decision_body(
        parse_ordered_json(read_file(flags.questions_file), flags.questions_file, kMaxFileValues),
        flags.questions_file);
  if (flags.state && flags.file) throw InputError("expected --state or --file; found both");
  if (body.has_text && (flags.state || flags.file))
    throw InputError("{} has a text of its own; expected it without --state and --file",
                     flags.questions_file);
  if (!body.has_text) {
    constexpr auto kExpected = "expected --state or --file with the text that the questions are about";
    body.request.state = flags.state ? *flags.state : read_text_of(flags.file, kExpected);
  }
  DecideRequest& request = body.request;
  if (command.count("--orders") > 0) request.both_orders = flags.orders == 2;
  if (command.count("--independent") > 0) request.independent = true;
  if (command.count("--draws") > 0) request.draws = flags.draws;
  if (command.count("--seed") > 0) request.seed = flags.seed;
  return body;
}

/// Draws a probability as a bar of block characters.
std::string bar_of(double probability) {
  const auto eighths = static_cast<int>(std::lround(probability * kBarColumns * 8));
  constexpr std::string_view kParts[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  std::string bar;
  for (int i = 0; i < eighths / 8; ++i) bar += "█";
  bar += kParts[eighths % 8];
  const int columns = (eighths + 7) / 8;
  return bar + std::string(static_cast<size_t>(kBarColumns - columns), ' ');
}

void print_answer(const DecisionBody& body, size_t i, const DecisionAnswer& answer, bool draws_bars) {
  const DecisionQuestion& question = body.request.questions[i];
  print_data("{}\n", question.instructions);
  size_t width = 0;
  for (const DecisionOption& option : question.options) width = std::max(width, option.text.size());
  width = std::min<size_t>(width, 40);
  for (size_t option = 0; option < question.options.size(); ++option) {
    const double probability = answer.probabilities[option];
    const std::string name = fit_to_columns(question.options[option].text, static_cast<int>(width));
    print_text("  {} {:6.3f}{}{}\n", name, probability, draws_bars ? "  " : "",
               draws_bars ? bar_of(probability) : "");
  }
  std::string summary;
  if (question.kind == QuestionKind::kScore)
    summary += fmt::format("score {:.3f} of {}, ", answer.score(), question.options.size() - 1);
  if (question.kind != QuestionKind::kPredicate)
    summary += fmt::format("confidence {:.3f}", confidence_of(question.kind, answer.probabilities));
  if (answer.standard_error)
    summary += fmt::format("{}standard error {:.4f}", summary.empty() ? "" : ", ", *answer.standard_error);
  if (!summary.empty()) print_text("  {}\n", summary);
}

void decide_command(const DecideFlags& flags, const CLI::App& command) {
  const DecisionBody body = read_body(flags, command);
  // Report errors in the flags before the weights are read.
  const std::shared_ptr<const OpenedModel> opened = open_model(flags, flags.prompt_template);
  [[maybe_unused]] const PreparedDecision checked(*opened, body.request);
  const std::unique_ptr<InferenceSession> session = load_session(flags, opened, own_limits(1));
  const DecideResult result = decide(*session, body.request);
  for (const std::string& warning : decision_warnings(body, result)) print_message("lacuna: {}\n", warning);
  if (flags.json) {
    nlohmann::ordered_json reply = decision_reply(body, result, opened->name());
    reply["lacuna"]["stats"]["seconds"] = result.statistics.seconds;
    print_data("{}\n", dump_json(reply));
    return;
  }
  const bool draws_bars = can_draw_on(stdout);
  for (size_t i = 0; i < result.answers.size(); ++i) {
    if (i > 0) print_text("\n");
    print_answer(body, i, result.answers[i], draws_bars);
  }
}

/// Adds --question, --choice and --levels.
void add_question_flags(CLI::App* command, const std::shared_ptr<DecideFlags>& flags) {
  command
      ->add_option_function<std::string>(
          "--question,-q", [flags](const std::string& text) { add_question(flags->typed, text); },
          "A question to be answered by yes or no; may be repeated")
      ->trigger_on_parse()
      ->group("Questions");
  const auto add_list = [&](const char* name, QuestionKind kind, size_t most, const char* help) {
    command
        ->add_option_function<std::string>(
            name,
            [flags, name, kind, most](const std::string& list) {
              add_options(flags->typed, kind, list, name, most);
            },
            help)
        ->trigger_on_parse()
        ->group("Questions");
  };
  add_list("--choice", QuestionKind::kChoice, kMaxOptions,
           "Options of the question before it, between commas: \"red, blue, green\"");
  add_list("--levels", QuestionKind::kScore, kMaxLevels,
           "Levels of the question before it, the lowest first, between commas: \"low, medium, high\"");
}

}  // namespace

void add_decide_command(CLI::App& program) {
  auto flags = std::make_shared<DecideFlags>();
  CLI::App* command = program.add_subcommand(
      "decide", "Answer questions about a text with probabilities, in one pass where they fit");
  add_model_flags(*command, *flags);
  command->add_option("--state,-p,--prompt", flags->state, "The text that the questions are about")
      ->group("Prompt");
  add_text_words(*command, "STATE", "--state");
  command
      ->add_option("-f,--file,--prompt-file", flags->file,
                   "Read the text from a file; - for standard input (default: standard input)")
      ->group("Prompt");
  const auto add = [&](const char* names, auto& field, const char* help) {
    return command->add_option(names, field, help)->group("Questions");
  };
  add_question_flags(command, flags);
  add("--questions", flags->questions_file,
      "JSON file with questions, and with a text or without, as OpenAI's /v1/decisions or "
      "System One take them");
  add("--orders", flags->orders,
      "2: means over the options of choices as given and in reverse order (default 1)")
      ->check(CLI::Range(1, 2));
  command->add_flag("--independent", flags->independent, "Ask each question on a canvas of its own")
      ->group("Questions");
  add("--draws", flags->draws,
      "GIDD, DiffusionGemma, LFM2.5: draws of noise at open positions, 1 to 64 (default 4)")
      ->check(CLI::Range(1, kMaxDraws));
  add("--seed", flags->seed, "Seed of the noise of --draws (default 0)");
  add_template_flags(*command, flags->prompt_template, "Prompt");
  command->add_flag("--json", flags->json, "Print one JSON object, in the format of the questions")
      ->group("Output");
  command->footer("docs/guide/decide.md says how answers are read, and what their probabilities mean.");
  command->callback([flags, command] { decide_command(*flags, *command); });
}

}  // namespace lacuna
