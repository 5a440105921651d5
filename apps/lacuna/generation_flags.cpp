#include "generation_flags.h"

#include <string>
#include <type_traits>
#include <vector>

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

template <typename T>
void add_setting(CLI::App& command, const std::string& names, const std::string& help,
                 std::optional<T>& field) {
  CLI::Option* option = command.add_option(names, field, help)->group("Generation");
  if constexpr (std::is_arithmetic_v<T>) option->check(number<T>());
}

}  // namespace

void add_generation_flags(CLI::App& command, GenerationOptions& options) {
  visit_options(options, [&](std::string_view name, Aliases aliases, auto& field, std::string_view help) {
    std::string names = "--" + std::string(name);
    for (const std::string_view alias : aliases) {
      names += alias.front() == '-' ? "," : ",--";
      names += alias;
    }
    add_setting(command, names, std::string(help), field);
  });
}

}  // namespace lacuna
