// Deterministic automata over bytes and special tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "constraint/automaton_limits.h"
#include "constraint/expression.h"
#include "constraint/transition_table.h"

namespace lacuna {

using StateId = uint16_t;
inline constexpr StateId kNoState = 0xFFFF;  ///< no accepted text continues here

/// A trimmed, minimal deterministic automaton: every state can be reached from the start and can reach an
/// accepting state. The automaton of the empty language has one state, which does not accept.
/// Immutable.
class ByteAutomaton {
 public:
  /// Throws AutomatonTooLarge: "the <what> is too large: it needs more than 20000 states"
  /// (subset_construction.cpp).
  static ByteAutomaton compile(const Expression& expression, std::string_view what, AutomatonLimits& limits);
  static ByteAutomaton compile(const Expression& expression, std::string_view what);
  /// The texts that both `a` and `b` accept.
  static ByteAutomaton intersection(const ByteAutomaton& a, const ByteAutomaton& b, std::string_view what,
                                    AutomatonLimits& limits);

  /// The texts that `a` accepts and `b` does not.
  static ByteAutomaton difference(const ByteAutomaton& a, const ByteAutomaton& b, std::string_view what,
                                  AutomatonLimits& limits);
  /// The texts that `table` accepts; the table need not be minimal.
  static ByteAutomaton of_table(TransitionTable table, std::string_view what, AutomatonLimits& limits);

  int num_states() const { return static_cast<int>(accepting_.size()); }
  static constexpr StateId start() { return 0; }
  bool is_accepting(StateId state) const { return accepting_[state] != 0; }
  /// True if no text is accepted.
  bool is_empty() const { return num_states() == 1 && !is_accepting(start()); }

  /// Two symbols of the same class lead to the same state from every state.
  int num_symbol_classes() const { return num_symbol_classes_; }
  int symbol_class(Symbol symbol) const { return symbol_classes_[symbol]; }
  StateId next_by_class(StateId state, int symbol_class) const {
    return next_[static_cast<size_t>(state) * static_cast<size_t>(num_symbol_classes_) +
                 static_cast<size_t>(symbol_class)];
  }
  StateId next(StateId state, Symbol symbol) const { return next_by_class(state, symbol_class(symbol)); }

  /// Whether exactly these bytes are in the language.
  bool accepts(std::string_view bytes) const;

  size_t memory_bytes() const;

 private:
  friend class AutomatonBuilder;
  ByteAutomaton() = default;
  static ByteAutomaton product(const ByteAutomaton& a, const ByteAutomaton& b, bool is_difference,
                               std::string_view what, AutomatonLimits& limits);

  std::vector<uint16_t> symbol_classes_;  // [kNumSymbols]
  int num_symbol_classes_ = 0;
  std::vector<StateId> next_;       // [num_states, num_symbol_classes]
  std::vector<uint8_t> accepting_;  // [num_states]
};

}  // namespace lacuna
