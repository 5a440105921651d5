// Text of --help, --help-all and `lacuna help`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace lacuna {

/// Adds --help-all and the help layout to the program and to every command added later.
void use_help(CLI::App& program);

/// The help page of a command; for the program, the list of commands.
///   all  includes rare flags and all names of each flag
std::string help_page(const CLI::App& command, bool all);

/// Names of a flag, such as "-n", "--gen-length": all, or the short ones and the first long one.
std::vector<std::string> names_of_flag(const CLI::Option& option, bool all);

/// names_of_flag() and the placeholder of the value: "-n, --gen-length N".
std::string signature_of(const CLI::Option& option, bool all);

}  // namespace lacuna
