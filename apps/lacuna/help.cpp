#include "help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/error.h"
#include "command_list.h"
#include "commands.h"
#include "suggest.h"
#include "terminal.h"
#include "words.h"

namespace lacuna {
namespace {

constexpr size_t kNameWidth = 30;  // width of the column of flags
constexpr size_t kCommandWidth = 12;

class HelpFormatter final : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* command, std::string /*name*/,
                        CLI::AppFormatMode mode) const override {
    return help_page(*command, mode == CLI::AppFormatMode::All);
  }
};

/// Placeholder for an option's value: "N", "f32|bf16"; empty for a flag.
std::string value_of(const CLI::Option& option) {
  constexpr size_t kLongest = 24;
  if (is_flag(option)) return "";
  std::string choices = fmt::format("{}", fmt::join(choices_of(option), "|"));
  if (!choices.empty() && choices.size() <= kLongest) return choices;
  if (!choices.empty()) return "NAME";
  const std::string type = option.get_type_name();
  if (type.starts_with("INT") || type.starts_with("UINT")) return "N";
  return type.starts_with("FLOAT") ? "X" : "TEXT";
}

void add_command_list(const CLI::App& command, std::string& page) {
  std::string_view heading;
  for (const CLI::App* each : commands_of(command)) {
    const CommandEntry* entry = find_entry(path_of(*each));
    const std::string_view group = entry == nullptr ? "Commands" : entry->group;
    if (group != heading) page += fmt::format("\n{}:\n", group);
    heading = group;
    page += fmt::format("  {:<{}}  {}\n", each->get_name(), kCommandWidth, each->get_description());
  }
}

void add_options(const CLI::App& command, bool all, std::string& page) {
  std::vector<const CLI::Option*> options = options_of(command);
  if (!all) std::erase_if(options, [](const CLI::Option* option) { return is_rare(*option); });
  for (const std::string& group : groups_of(options)) {
    page += fmt::format("\n{}:\n", group);
    for (const CLI::Option* option : options) {
      if (group_of(*option) != group) continue;
      const std::string names = signature_of(*option, all);
      page += "  " + names;
      if (names.size() > kNameWidth)
        page += "\n" + std::string(kNameWidth + 4, ' ');
      else
        page += std::string(kNameWidth + 2 - names.size(), ' ');
      page += option->get_description() + "\n";
    }
  }
}

/// Prints the help page of the command at this path of words.
void print_help(const CLI::App& program, const std::vector<std::string>& words, bool all) {
  const CLI::App* command = &program;
  for (const std::string& word : words) {
    const CLI::App* inner = find_command(*command, std::span(&word, 1));
    if (inner == nullptr) {
      throw InputError("there is no command '{}'{}; see lacuna help", word,
                       did_you_mean(word, names_of(*command)));
    }
    command = inner;
  }
  print_data("{}", help_page(*command, all));
}

}  // namespace

std::vector<std::string> names_of_flag(const CLI::Option& option, bool all) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) {
    names.push_back("--" + name);
    if (!all) break;
  }
  return names;
}

std::string signature_of(const CLI::Option& option, bool all) {
  const std::vector<std::string> names = names_of_flag(option, all);
  std::string text = fmt::format("{}{}", option.get_snames().empty() ? "    " : "", fmt::join(names, ", "));
  const std::string value = value_of(option);
  return value.empty() ? text : text + " " + value;
}

std::string help_page(const CLI::App& command, bool all) {
  const std::string path = path_of(command);
  const CommandEntry* entry = find_entry(path);
  std::string page;
  if (path.empty()) {
    page = command.get_description() + "\n\n  lacuna COMMAND [FLAGS]\n";
    add_command_list(command, page);
    page +=
        "\nFirst steps: lacuna run mini-llada \"Mia has 12 shells. She finds 7 more. How many shells does "
        "Mia have now?\"\n`lacuna help COMMAND` explains a command; --version names this version.\n";
    return page;
  }
  if (entry != nullptr) page = fmt::format("  {}\n\n", fmt::join(entry->examples(), "\n  "));
  page += fmt::format("{}\n\nUsage: {}\n", command.get_description(), usage_of(command));
  add_command_list(command, page);
  add_options(command, all, page);
  if (!command.get_footer().empty()) page += "\n" + command.get_footer() + "\n";
  const std::vector<const CLI::Option*> options = options_of(command);
  if (!all && std::ranges::any_of(options, [](const auto* option) { return is_rare(*option); })) {
    page += fmt::format("\nMore flags: lacuna {} --help-all\n", path);
  }
  return page;
}

void use_help(CLI::App& program) {
  program.set_help_flag("-h,--help", "Print this page");
  program.set_help_all_flag("--help-all", "Print this page with every flag and every name of it");
  program.formatter(std::make_shared<HelpFormatter>());
}

void add_help_command(CLI::App& program) {
  struct HelpFlags {
    std::vector<std::string> words;
    bool all = false;
  };
  auto flags = std::make_shared<HelpFlags>();
  CLI::App* command = program.add_subcommand("help", "Explain a command");
  command->add_option("COMMAND", flags->words, "A command, as in `lacuna help bench step`");
  command->add_flag("--all", flags->all, "Include all flags and aliases");
  command->callback([flags, &program] { print_help(program, flags->words, flags->all); });
}

}  // namespace lacuna
