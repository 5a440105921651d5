// Text of --help, --help-all and `lacuna help`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace lacuna {

/// Gives the program, and with it every command that is added later, --help-all and this page's layout.
void use_help(CLI::App& program);

/// The page of a command; of the program, the list of commands.
///   all  with rare flags, and with all names of each
std::string help_page(const CLI::App& command, bool all);

/// "-n", "--gen-length": all names, or the short ones and the first long one.
std::vector<std::string> names_of_flag(const CLI::Option& option, bool all);

/// "-n, --gen-length N": these names and what the option takes.
std::string signature_of(const CLI::Option& option, bool all);

}  // namespace lacuna
