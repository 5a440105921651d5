// Languages of a few texts.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "constraint/byte_automaton.h"
#include "constraint/expression.h"

namespace lacuna {

inline constexpr size_t kMaxUniqueValues =
    256;  ///< of which lists of different items are written in one order
inline constexpr size_t kMaxPermutedValues = 6;  ///< of which they are written in any order
inline constexpr int kMaxDistinctItems = 5;      ///< of lists of different items that have many values

/// All texts of an automaton without special symbols, shorter ones first; none if they are more than `most`,
/// or have more than kMaxFiniteBytes together.
std::optional<std::vector<std::string>> finite_language(const ByteAutomaton& automaton, size_t most);
inline constexpr size_t kMaxFiniteBytes = 65'536;

/// Any byte of a JSON text.
Expression any_byte();

}  // namespace lacuna
