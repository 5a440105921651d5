// Text of --help, --help-all and `lacuna help`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace lacuna {

/// Gives the program, and with it every command that is added later, --help-all and this page's layout.
void use_help(CLI::App& program);

/// The page of a command; of the program, the list of commands.
///   all  with rare flags, and with all names of each
std::string help_page(const CLI::App& command, bool all);

/// "-n, --gen-length N": the names of an option and what it takes.
///   all  other names too
std::string signature_of(const CLI::Option& option, bool all);

}  // namespace lacuna
