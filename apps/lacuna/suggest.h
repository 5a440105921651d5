// "Did you mean ...?" for what people mistype.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// "; did you mean NAME?", or nothing.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

/// Words that may follow a command: the names of its commands, and "--name" of its options.
std::vector<std::string> names_of(const CLI::App& command);

/// A message about a value, with the nearest of the values that it lists: `--cache is 'dul'; expected none,
/// prefix or dual` and `--dtype: bf17 not in {auto,f32,bf16}` get "; did you mean ...?".
std::string with_nearest_value(std::string message);

}  // namespace lacuna
