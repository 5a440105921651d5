// `lacuna man`: the manual page in roff, from the same commands and flags that --help describes.
#include <fmt/format.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "command_list.h"
#include "commands.h"
#include "help.h"
#include "lacuna/version.h"
#include "terminal.h"
#include "words.h"

namespace lacuna {
namespace {

/// Escapes text for roff: backslashes, dashes and quotes print as typed, and no line begins a request.
std::string roff(std::string_view text) {
  static const std::map<char, std::string> kEscapes = {{'\\', "\\e"},  {'-', "\\-"},   {'\'', "\\(aq"},
                                                       {'`', "\\(ga"}, {'^', "\\(ha"}, {'~', "\\(ti"}};
  std::string result;
  for (const char c : text) {
    const bool begins_line = result.empty() || result.back() == '\n';
    if (begins_line && (c == '.' || c == '\'')) result += "\\&";
    const auto escape = kEscapes.find(c);
    result += escape == kEscapes.end() ? std::string(1, c) : escape->second;
  }
  return result;
}

void add_examples(const CommandEntry& entry, std::string& page) {
  page += ".PP\nExamples:\n.PP\n.nf\n.RS\n";
  for (const std::string_view example : entry.examples()) page += roff(example) + "\n";
  page += ".RE\n.fi\n";
}

void add_options(const CLI::App& command, std::string& page) {
  const std::vector<const CLI::Option*> options = options_of(command);
  const std::vector<std::string> groups = groups_of(options);
  for (const std::string& group : groups) {
    if (groups.size() > 1) page += fmt::format(".PP\n{}:\n", roff(group));
    for (const CLI::Option* option : options) {
      if (group_of(*option) != group) continue;
      std::string names = signature_of(*option, true);
      names.erase(0, names.find_first_not_of(' '));
      page += fmt::format(".TP\n.B {}\n{}\n", roff(names), roff(option->get_description()));
    }
  }
}

void add_command(const CLI::App& command, std::string& page) {
  const std::string path = path_of(command);
  page += fmt::format(".SS \"lacuna {}\"\n{}.\n", roff(path), roff(command.get_description()));
  page += fmt::format(".PP\n{}\n", roff(usage_of(command)));
  if (const CommandEntry* entry = find_entry(path)) add_examples(*entry, page);
  add_options(command, page);
  if (!command.get_footer().empty()) page += ".PP\n" + roff(command.get_footer()) + "\n";
  for (const CLI::App* each : commands_of(command)) add_command(*each, page);
}

std::string man_page(const CLI::App& program) {
  std::string page = fmt::format(".TH LACUNA 1 \"\" \"lacuna {}\" \"User Commands\"\n", LACUNA_VERSION);
  page += ".SH NAME\nlacuna \\- run diffusion language models\n";
  page += ".SH SYNOPSIS\n.B lacuna\n.I command\n.RI [ flags ]\n";
  page += ".SH DESCRIPTION\n" + roff(program.get_description()) + "\n";
  page += ".PP\nText goes to standard output, everything else to standard error.\n";
  page += ".SH COMMANDS\n";
  for (const CLI::App* each : commands_of(program)) add_command(*each, page);
  page += ".SH EXIT STATUS\n.TP\n.B 0\nDone.\n.TP\n.B 1\nFailed.\n.TP\n.B 2\nWrong usage or bad input.\n";
  page +=
      ".SH ENVIRONMENT\n.TP\n.B LACUNA_ISA\nUse the kernels of scalar, avx2, avx512-fma, avx512 or amx, "
      "on ARM of scalar, neon or neon-i8mm.\n";
  page += ".TP\n.B LACUNA_*\nEach flag of lacuna serve, in capitals and with underscores; the flag wins.\n";
  page += ".TP\n.B NO_COLOR\nNo colour.\n";
  return page;
}

}  // namespace

void add_man_command(CLI::App& program) {
  CLI::App* command = program.add_subcommand("man", "Print the manual page, as roff");
  command->callback([&program] { print_data("{}", man_page(program)); });
}

}  // namespace lacuna
