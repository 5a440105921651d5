// Extracts numbers from answers, to be compared as texts, like lm-evaluation-harness for GSM8K.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lacuna {

/// Removes "$", "," and a period at the end.
std::string normalized_number(std::string_view text);

/// Strict: the number after the first "#### ", normalized; empty without one.
std::optional<std::string> strict_number(std::string_view answer);

/// Flexible: the last number anywhere, normalized. Unlike in the harness, a number must contain a digit.
std::optional<std::string> last_number(std::string_view answer);

}  // namespace lacuna
