#include "constraint/byte_automaton.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "constraint/transition_table.h"

namespace lacuna {
/// Converts a TransitionTable into a ByteAutomaton.
class AutomatonBuilder {
 public:
  static ByteAutomaton build(TransitionTable table, std::string_view what, AutomatonLimits& limits) {
    limits.spend(table.next.size(), what);
    table = minimized(std::move(table));
    ByteAutomaton automaton;
    automaton.symbol_classes_ = std::move(table.symbol_classes);
    automaton.num_symbol_classes_ = table.num_classes;
    automaton.accepting_ = std::move(table.accepting);
    automaton.next_.reserve(table.next.size());
    for (const int32_t target : table.next) {
      automaton.next_.push_back(target == TransitionTable::kNone ? kNoState : static_cast<StateId>(target));
    }
    return automaton;
  }
};

ByteAutomaton ByteAutomaton::of_table(TransitionTable table, std::string_view what, AutomatonLimits& limits) {
  return AutomatonBuilder::build(std::move(table), what, limits);
}

ByteAutomaton ByteAutomaton::intersection(const ByteAutomaton& a, const ByteAutomaton& b,
                                          std::string_view what, AutomatonLimits& limits) {
  return product(a, b, false, what, limits);
}

ByteAutomaton ByteAutomaton::difference(const ByteAutomaton& a, const ByteAutomaton& b, std::string_view what,
                                        AutomatonLimits& limits) {
  return product(a, b, true, what, limits);
}

ByteAutomaton ByteAutomaton::product(const ByteAutomaton& a, const ByteAutomaton& b, bool is_difference,
                                     std::string_view what, AutomatonLimits& limits) {
  TransitionTable table;
  std::vector<std::pair<int, int>> classes;  // pairs of classes of a and b
  for (int symbol = 0; symbol < kNumSymbols; ++symbol) {
    const std::pair pair(a.symbol_class(static_cast<Symbol>(symbol)),
                         b.symbol_class(static_cast<Symbol>(symbol)));
    const auto known = std::find(classes.begin(), classes.end(), pair);
    table.symbol_classes.push_back(static_cast<uint16_t>(known - classes.begin()));
    if (known == classes.end()) classes.push_back(pair);
  }
  table.num_classes = static_cast<int>(classes.size());

  std::unordered_map<uint32_t, int32_t> numbers;
  std::vector<std::pair<StateId, StateId>> states;
  const auto number_of = [&](StateId in_a, StateId in_b) {
    const auto [known, is_new] =
        numbers.try_emplace(static_cast<uint32_t>(in_a) << 16 | in_b, static_cast<int32_t>(states.size()));
    if (is_new) {
      states.emplace_back(in_a, in_b);
      const bool in_other = in_b != kNoState && b.is_accepting(in_b);
      table.accepting.push_back(a.is_accepting(in_a) && in_other != is_difference ? 1 : 0);
      table.next.resize(states.size() * classes.size(), TransitionTable::kNone);
    }
    return known->second;
  };
  number_of(start(), start());
  size_t num_transitions = 0;
  for (size_t state = 0; state < states.size(); ++state) {
    for (size_t c = 0; c < classes.size(); ++c) {
      const StateId in_a = a.next_by_class(states[state].first, classes[c].first);
      const StateId from_b = states[state].second;
      const StateId in_b = from_b == kNoState ? kNoState : b.next_by_class(from_b, classes[c].second);
      if (in_a == kNoState || (in_b == kNoState && !is_difference)) continue;
      table.at(state, static_cast<int>(c)) = number_of(in_a, in_b);
      ++num_transitions;
    }
    limits.check_size(table.num_states(), num_transitions, what);
    limits.spend(classes.size(), what);
  }
  return AutomatonBuilder::build(std::move(table), what, limits);
}

bool ByteAutomaton::accepts(std::string_view bytes) const {
  StateId state = start();
  for (const char c : bytes) {
    state = next(state, static_cast<uint8_t>(c));
    if (state == kNoState) return false;
  }
  return is_accepting(state);
}

size_t ByteAutomaton::memory_bytes() const {
  return sizeof *this + symbol_classes_.size() * sizeof(uint16_t) + next_.size() * sizeof(StateId) +
         accepting_.size();
}

}  // namespace lacuna
