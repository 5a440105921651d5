#pragma once

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <string>
#include <type_traits>

namespace lacuna {

/// Refuses what is not a T in a sentence; CLI11's own does not say what it expected.
template <typename T>
CLI::Validator number() {
  return CLI::Validator(
      [](std::string& text) {
        T value{};
        if (CLI::detail::lexical_cast(text, value)) return std::string();
        return fmt::format("'{}' is not {}", text, std::is_integral_v<T> ? "a whole number" : "a number");
      },
      "");
}

}  // namespace lacuna
