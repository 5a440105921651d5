// Languages of finitely many texts.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "constraint/byte_automaton.h"
#include "constraint/expression.h"

namespace lacuna {

inline constexpr size_t kMaxUniqueValues =
    256;  ///< up to this many item values, uniqueItems lists have one order
inline constexpr size_t kMaxPermutedValues =
    6;  ///< up to this many item values, uniqueItems lists have any order
inline constexpr int kMaxDistinctItems = 5;  ///< maximum length of uniqueItems lists with more item values

/// All texts of an automaton without special symbols, shorter ones first. Empty if there are more than
/// `most`, or if all their prefixes have more than kMaxFiniteBytes * most bytes.
std::optional<std::vector<std::string>> finite_language(const ByteAutomaton& automaton, size_t most);
inline constexpr size_t kMaxFiniteBytes = 65'536;

/// Any one byte, for intersections with languages of well-formed text.
Expression any_byte();

}  // namespace lacuna
