// Numbers within answers, compared as texts, as lm-evaluation-harness does for GSM8K.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lacuna {

/// Removes "$", "," and a period at the end.
std::string normalized_number(std::string_view text);

/// Strict: the number after the first "#### ", normalized; empty without one.
std::optional<std::string> strict_number(std::string_view answer);

/// Flexible: the last number anywhere, normalized. As in the harness, except that text without a digit is no
/// number.
std::optional<std::string> last_number(std::string_view answer);

}  // namespace lacuna
