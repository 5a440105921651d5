// "Did you mean ...?" for mistyped words.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// "; did you mean NAME?", or "" if no candidate is near.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

/// Words that may follow a command: its subcommands and "--name" of its options.
std::vector<std::string> names_of(const CLI::App& command);

/// Appends "; did you mean ...?" to a message that lists values: `--cache is 'dul'; expected none, prefix or
/// dual` or `--dtype: bf17 not in {auto,f32,bf16}`.
std::string with_nearest_value(std::string message);

}  // namespace lacuna
