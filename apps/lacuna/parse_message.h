// The mistake in a command line, in one sentence.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace lacuna {

/// The sentence for an error that CLI11 found: the flag, its value and what is accepted, and the nearest of
/// the names that exist.
///   command  the command whose arguments were read
std::string sentence_of(const CLI::ParseError& error, const CLI::App& command);

}  // namespace lacuna
