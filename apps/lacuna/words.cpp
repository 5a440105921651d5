#include "words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "command_list.h"

namespace lacuna {
namespace {

constexpr const char* kModelWord = "MODEL";

std::vector<const CLI::Option*> word_options(const CLI::App& command) {
  return command.get_options([](const CLI::Option* option) { return option->get_positional(); });
}

/// Whether the flag is on the command line, not only in the environment.
bool is_typed(const CLI::App& command, const CLI::Option* flag) {
  const std::vector<CLI::Option*>& typed = command.parse_order();
  return std::find(typed.begin(), typed.end(), flag) != typed.end();
}

/// Whether a flag replaces the model word: --model or --endpoint.
bool has_model(const CLI::App& command, const CLI::Option& model) {
  if (is_typed(command, &model)) return true;
  const CLI::Option* const endpoint = command.get_option_no_throw("--endpoint");
  return endpoint != nullptr && is_typed(command, endpoint);
}

void check_model_word(const CLI::App& command, const std::string& word) {
  std::error_code ignored;
  const bool may_be_model = word.find_first_of(" \n") == std::string::npos;
  if (may_be_model || std::filesystem::exists(word, ignored) || !command.remaining().empty()) return;
  throw InputError("{} is not the name of a model; expected {}, and lacuna list shows the models",
                   in_quotes(word.substr(0, 80)), usage_of(command));
}

/// Makes an option take all remaining words. With an unlimited count, CLI11 would split "[a, b]".
CLI::Option* take_all(CLI::Option* option) {
  constexpr int kMaxWords = 1 << 20;
  return option->expected(kMaxWords)->allow_extra_args(false)->multi_option_policy(
      CLI::MultiOptionPolicy::TakeAll);
}

/// Distributes the words over the positional options in `places`.
void shift_words(const CLI::App& command, const std::vector<std::string>& words,
                 std::span<CLI::Option* const> places) {
  size_t next = 0;
  for (CLI::Option* place : places) {
    place->clear();
    const bool takes_all = place->get_items_expected_max() > 1;
    for (size_t taken = 0; next < words.size() && (takes_all || taken == 0); ++taken)
      place->add_result(words[next++]);
  }
  if (next == words.size() || !command.remaining().empty()) return;  // CLI11 then reports an unknown flag
  throw InputError("unknown argument {}: the model is given by a flag; see lacuna {} --help",
                   in_quotes(words[next].substr(0, 80)), path_of(command));
}

std::string in_capitals(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

void add_model_word(CLI::App& command, CLI::Option& model) {
  const bool takes_all = model.get_items_expected_max() > 1;
  auto place_words = [&command, &model, takes_all](const std::vector<std::string>& first) {
    std::vector<std::string> words = first;
    if (takes_all || !has_model(command, model)) {
      if (!is_typed(command, &model)) model.clear();  // drops the environment's value
      for (const std::string& word : words) {
        check_model_word(command, word);
        model.add_result(word);
      }
      model.run_callback();
      return;
    }
    std::vector<CLI::Option*> places =
        command.get_options([](const CLI::Option* option) { return option->get_positional(); });
    places.erase(places.begin());
    for (const CLI::Option* place : places)
      words.insert(words.end(), place->results().begin(), place->results().end());
    shift_words(command, words, places);
  };
  CLI::Option* words = command.add_option_function<std::vector<std::string>>(
      kModelWord, place_words, "The model, in place of --model");
  if (takes_all) {
    take_all(words);
  } else {
    words->expected(1)->allow_extra_args(false);
  }
}

void add_text_words(CLI::App& command, const std::string& name, const std::string& flag) {
  CLI::Option* const option = command.get_option(flag);
  const auto join = [&command, option](const std::vector<std::string>& words) {
    const std::string text = fmt::format("{}", fmt::join(words, " "));
    if (is_typed(command, option)) {
      if (!command.remaining().empty()) return;  // CLI11 reports an unknown flag instead
      throw InputError("{} and {} are both given; expected one of them", option->get_name(),
                       in_quotes(text.substr(0, 80)));
    }
    option->add_result(text);
    option->run_callback();
  };
  take_all(command.add_option_function<std::vector<std::string>>(name, join, "Value of " + flag));
}

void take_one_word_each(CLI::App& program) {
  for (CLI::App* command : program.get_subcommands([](const CLI::App*) { return true; })) {
    take_one_word_each(*command);
    for (CLI::Option* option : command->get_options()) {
      if (option->get_positional() || !option->get_allow_extra_args()) continue;
      option->expected(1)->allow_extra_args(false)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    }
  }
}

bool takes_files(const CLI::App& command) {
  const std::vector<const CLI::Option*> words = word_options(command);
  return !words.empty() && choices_of(*words.front()).empty();
}

std::string usage_of(const CLI::App& command) {
  std::string usage = "lacuna " + path_of(command);
  if (!commands_of(command).empty()) usage += " COMMAND";
  for (const CLI::Option* option : word_options(command)) {
    const std::string name = in_capitals(option->get_name(true, false));
    const CLI::Option* const model = name == kModelWord ? command.get_option_no_throw("--model") : nullptr;
    const bool is_needed = option->get_required() || (model != nullptr && model->get_required());
    usage += is_needed ? " " + name : " [" + name + "]";
  }
  return usage + " [FLAGS]";
}

}  // namespace lacuna
