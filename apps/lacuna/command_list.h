// Headings, examples and the order of flags in help. All other text of help, completion and the manual comes
// from the commands themselves.
#pragma once

#include <CLI/CLI.hpp>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

struct CommandEntry {
  std::string_view name;   ///< "run"; of a subcommand: "bench step"
  std::string_view group;  ///< heading in the list of commands; empty: same as the previous entry
  std::string_view example, another;

  std::array<std::string_view, 2> examples() const { return {example, another}; }
};

/// Null for a command without an entry.
const CommandEntry* find_entry(std::string_view name);

/// The words after "lacuna" that lead to a command: "bench step"; empty for the program.
std::string path_of(const CLI::App& command);

/// The command at this path of words, or null.
const CLI::App* find_command(const CLI::App& program, std::span<const std::string> words);

/// Subcommands in the order of the list, those without an entry last.
std::vector<const CLI::App*> commands_of(const CLI::App& command);

/// The heading of an option in --help.
std::string group_of(const CLI::Option& option);
/// The headings of these options, in the order of --help.
std::vector<std::string> groups_of(std::span<const CLI::Option* const> options);
/// Whether only --help-all shows the option.
bool is_rare(const CLI::Option& option);

/// Whether the option takes no value.
bool is_flag(const CLI::Option& option);
/// The values of an option with a fixed set of values; else empty.
std::vector<std::string> choices_of(const CLI::Option& option);
/// Options of a command that have a long name.
std::vector<const CLI::Option*> options_of(const CLI::App& command);

}  // namespace lacuna
