#include "generation_flags.h"

#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "input.h"
#include "numbers.h"

namespace lacuna {
namespace {

void add_setting(CLI::App& command, const std::string& names, const std::string& help, bool& field) {
  command.add_flag(names, field, help)->group("Generation");
}

void add_setting(CLI::App& command, const std::string& names, const std::string& help,
                 std::vector<std::string>& field) {
  command.add_option(names, field, help)
      ->group("Generation")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

/// Adds a setting whose value is a number or auto.
void add_setting(CLI::App& command, const std::string& names, const std::string& help, AnswerLength& field) {
  const CLI::Validator is_length(
      [](std::string& text) {
        if (text == "auto" || parse_number<int32_t>(text)) return std::string();
        return fmt::format("'{}' is neither auto nor a whole number up to {}", text,
                           std::numeric_limits<int32_t>::max());
      },
      "");
  const auto take = [&field](const std::string& text) {
    field.is_auto = text == "auto";
    if (!field.is_auto) field = *parse_number<int32_t>(text);
  };
  command.add_option_function<std::string>(names, take, help)->group("Generation")->check(is_length);
}

template <typename T>
void add_setting(CLI::App& command, const std::string& names, const std::string& help,
                 std::optional<T>& field) {
  CLI::Option* option = command.add_option(names, field, help)->group("Generation");
  if constexpr (std::is_arithmetic_v<T>) option->check(number<T>());
}

}  // namespace

void add_generation_flags(CLI::App& command, GenerationOptions& options) {
  visit_options(options, [&](const Setting& setting, auto& field) {
    std::string names = "--" + std::string(setting.name);
    for (const std::string_view alias : setting.aliases) {
      names += alias.front() == '-' ? "," : ",--";
      names += alias;
    }
    add_setting(command, names, std::string(setting.help), field);
  });
  command
      .add_option_function<std::string>(
          "--grammar-file", [&options](const std::string& path) { options.grammar = read_file(path); },
          "--grammar from a file")
      ->excludes("--grammar")
      ->group("Generation");
  command
      .add_option_function<std::string>(
          "--json-schema-file",
          [&options](const std::string& path) { options.json_schema = read_file(path); },
          "--json-schema from a file")
      ->excludes("--json-schema")
      ->group("Generation");
}

}  // namespace lacuna
