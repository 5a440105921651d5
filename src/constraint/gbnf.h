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
inline constexpr int kMaxGrammarNesting = 64;     ///< depth of groups, and of rules within rules
inline constexpr int kMaxGrammarVisits = 20'000;  ///< rule visits; every use of a rule counts

/// The texts of the rule "root". Direct left and right recursion becomes a repetition and is exact. Other
/// recursion is unrolled up to kRecursionDepth times, fewer if the automaton is too large; deeper texts are
/// not in the language. Supports rules, "texts" with escapes, [classes], ., ( ), |, *, +, ?, {m}, {m,}, {m,n}
/// and # comments; refuses tokens (<...>). Throws InputError that begins with `what` and names the line;
/// AutomatonTooLarge.
Expression gbnf_expression(std::string_view grammar, std::string_view what, AutomatonLimits& limits);

}  // namespace lacuna
