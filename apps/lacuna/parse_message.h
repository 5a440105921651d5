// Error messages for the command line.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace lacuna {

/// Words a CLI11 error as one sentence: the flag, its value, what is accepted, and the nearest known name.
///   command  the command that was parsed
std::string sentence_of(const CLI::ParseError& error, const CLI::App& command);

}  // namespace lacuna
