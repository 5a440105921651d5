// A deterministic automaton while it is built, and what makes it minimal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "constraint/symbol.h"

namespace lacuna {

/// State 0 is the start.
struct TransitionTable {
  static constexpr int32_t kNone = -1;

  std::vector<uint16_t> symbol_classes;  // [kNumSymbols]
  int num_classes = 0;
  std::vector<int32_t> next;       // [num_states, num_classes]; kNone: no accepted text continues
  std::vector<uint8_t> accepting;  // [num_states]

  size_t num_states() const { return accepting.size(); }
  int32_t& at(size_t state, int symbol_class) {
    return next[state * static_cast<size_t>(num_classes) + static_cast<size_t>(symbol_class)];
  }
  int32_t at(size_t state, int symbol_class) const {
    return next[state * static_cast<size_t>(num_classes) + static_cast<size_t>(symbol_class)];
  }
};

/// Drops transitions from which no accepting state can be reached, merges equivalent states (Hopcroft 1971)
/// and equal classes, and numbers both in the order in which a breadth-first search from the start meets
/// them. All states can be reached from the start, before and after. The result depends on the language
/// alone.
TransitionTable minimised(TransitionTable table);

}  // namespace lacuna
