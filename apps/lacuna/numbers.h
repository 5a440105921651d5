#pragma once

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>

namespace lacuna {

/// Parses a number; empty unless all of `text` is a T.
template <typename T>
std::optional<T> parse_number(const std::string& text) {
  T value{};
  if constexpr (std::is_integral_v<T>) {  // CLI11's parser wraps values that do not fit
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || rest != end) return {};
  } else if (!CLI::detail::lexical_cast(text, value)) {
    return {};
  }
  return value;
}

/// Validator for a T. Unlike CLI11's, its message names the accepted values.
template <typename T>
CLI::Validator number() {
  return CLI::Validator(
      [](std::string& text) {
        if (parse_number<T>(text)) return std::string();
        if constexpr (!std::is_integral_v<T>) return fmt::format("'{}' is not a number", text);
        return fmt::format("'{}' is not a whole number from {} to {}", text, std::numeric_limits<T>::min(),
                           std::numeric_limits<T>::max());
      },
      "");
}

/// Validator for a T from `first` to `last`.
template <typename T>
CLI::Validator number_in(T first, T last) {
  return CLI::Validator(
      [first, last](std::string& text) {
        const std::optional<T> value = parse_number<T>(text);
        if (value && *value >= first && *value <= last) return std::string();
        return fmt::format("'{}' is not a {} from {} to {}", text,
                           std::is_integral_v<T> ? "whole number" : "number", first, last);
      },
      "");
}

}  // namespace lacuna
