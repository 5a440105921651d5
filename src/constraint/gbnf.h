// llama.cpp's grammars (GBNF).
#pragma once

#include <cstddef>
#include <string_view>

#include "constraint/byte_automaton.h"
#include "constraint/expression.h"

namespace lacuna {

inline constexpr size_t kMaxGrammarBytes = size_t{1} << 16;
inline constexpr size_t kMaxGrammarRules = 1'000;
inline constexpr int kMaxGrammarRepeat = 1'000;   ///< largest count in {m,n}
inline constexpr int kMaxGrammarNesting = 64;     ///< of groups, and of rules within rules
inline constexpr int kMaxGrammarVisits = 20'000;  ///< rules visited, those that others repeat included

/// The texts of the rule "root". A rule that repeats itself at the end or the beginning of its alternatives
/// is a repetition, and exact; any other rule within itself is unrolled up to kRecursionDepth times, fewer if
/// that is too large, so that deeper texts are not in the language. Rules, "texts" with escapes, [classes],
/// ., ( ),
/// |, *, +, ?, {m}, {m,}, {m,n} and # comments are read; tokens (<...>) are refused. Throws InputError that
/// begins with `what` and names the line; AutomatonTooLarge.
Expression gbnf_expression(std::string_view grammar, std::string_view what, AutomatonLimits& limits);

}  // namespace lacuna
