// A deterministic automaton under construction, and its minimization.
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

/// Drops transitions that cannot reach an accepting state, merges equivalent states (Hopcroft 1971) and equal
/// classes, and numbers both in breadth-first order from the start. Requires that all states can be reached
/// from the start. The result depends only on the language.
TransitionTable minimized(TransitionTable table);

}  // namespace lacuna
