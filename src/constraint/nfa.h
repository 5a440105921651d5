// Nondeterministic automata: the input of the subset construction.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "constraint/automaton_limits.h"
#include "constraint/expression.h"

namespace lacuna {

struct Nfa {
  enum class EdgeKind : uint8_t {
    kSymbols,    ///< consumes one symbol in [first, last]
    kEmpty,      ///< consumes nothing
    kIfAtBegin,  ///< consumes nothing; before the first symbol only
    kIfAtEnd,    ///< consumes nothing; after the last symbol only
  };
  struct Edge {
    uint32_t target;
    Symbol first, last;
    EdgeKind kind;
  };

  /// State s has the edges [first_edge[s], first_edge[s + 1]).
  std::vector<uint32_t> first_edge;  // [num_states + 1]
  std::vector<Edge> edges;
  uint32_t start = 0;
  uint32_t final = 0;
  bool has_assertions = false;

  size_t num_states() const { return first_edge.size() - 1; }
};

/// Thompson's construction. Throws AutomatonTooLarge.
Nfa build_nfa(const Expression& expression, std::string_view what, AutomatonLimits& limits);

}  // namespace lacuna
