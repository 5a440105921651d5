// Regular expressions in the syntax of ECMA-262.
#pragma once

#include <string_view>

#include "constraint/byte_automaton.h"
#include "constraint/expression.h"

namespace lacuna {

enum class RegexMatch {
  kWhole,   ///< the expression matches the whole text
  kSearch,  ///< the expression matches somewhere in the text, as JSON Schema's "pattern"
};

inline constexpr int kMaxRegexRepeat = 1'000;     ///< largest count in {least,most}
inline constexpr size_t kMaxRegexBytes = 16'384;  ///< of one expression
inline constexpr int kMaxRegexNesting = 64;       ///< depth of nested groups

/// The texts that `pattern` matches, encoded by `encoding`. The syntax is ECMA-262's with the flag "u":
/// | * + ? {n} {n,} {n,m} (also lazy, with equal effect) ( ) (?: ) (?<name> ) [ ] . ^ $ \d \w \s \D \W
/// \S \t \n \v \f \r \0 \cX \xHH \uHHHH \u{H...}, escaped punctuation, (?= ) (?! ) (?<= ) (?<! ) \b \B,
/// \p{...} and \P{...} of general categories. Back references, inline flags, atomic groups, scripts and other
/// properties are refused by name. Throws InputError that begins with `what`
/// ("regex", "#/properties/id/pattern") and names the position, in bytes from 0; AutomatonTooLarge.
Expression regex_expression(std::string_view pattern, RegexMatch match, TextEncoding encoding,
                            std::string_view what, AutomatonLimits& limits);
Expression regex_expression(std::string_view pattern, RegexMatch match, TextEncoding encoding,
                            std::string_view what);

}  // namespace lacuna
