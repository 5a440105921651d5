// Random texts of an automaton's language.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "constraint/byte_automaton.h"

namespace lacuna {

class RandomTexts {
 public:
  RandomTexts(const ByteAutomaton& automaton, unsigned seed) : automaton_(automaton), random_(seed) {
    const auto num_states = static_cast<size_t>(automaton.num_states());
    distance_.assign(num_states, kFar);
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t state = num_states; state-- > 0;) {
        int distance = automaton.is_accepting(static_cast<StateId>(state)) ? 0 : kFar;
        for (int c = 0; c < automaton.num_symbol_classes(); ++c) {
          const StateId next = automaton.next_by_class(static_cast<StateId>(state), c);
          if (next != kNoState) distance = std::min(distance, distance_[next] + 1);
        }
        changed = changed || distance != distance_[state];
        distance_[state] = distance;
      }
    }
  }

  /// A text; from `soft_limit` bytes on it takes the shortest way to an end. Specials are left out.
  std::string next(size_t soft_limit) {
    std::string text;
    StateId state = ByteAutomaton::start();
    while (true) {
      const std::vector<int> classes = ways_from(state, text.size() >= soft_limit);
      if (automaton_.is_accepting(state) && (classes.empty() || text.size() >= soft_limit || below(6) == 0))
        return text;
      if (classes.empty()) return text;  // specials alone
      const int chosen = classes[below(classes.size())];
      std::vector<int> bytes;
      for (int byte = 0; byte < 256; ++byte) {
        if (automaton_.symbol_class(static_cast<Symbol>(byte)) == chosen) bytes.push_back(byte);
      }
      text += static_cast<char>(bytes[below(bytes.size())]);
      state = automaton_.next_by_class(state, chosen);
    }
  }

 private:
  static constexpr int kFar = 1 << 20;

  size_t below(size_t count) { return random_() % count; }

  std::vector<int> ways_from(StateId state, bool shortest) const {
    std::vector<int> classes;
    for (int byte = 0; byte < 256; ++byte) {
      const int c = automaton_.symbol_class(static_cast<Symbol>(byte));
      const StateId next = automaton_.next_by_class(state, c);
      if (next == kNoState || (shortest && distance_[next] >= distance_[state])) continue;
      if (std::find(classes.begin(), classes.end(), c) == classes.end()) classes.push_back(c);
    }
    return classes;
  }

  const ByteAutomaton& automaton_;
  std::mt19937 random_;
  std::vector<int> distance_;  // [num_states] fewest bytes to an accepting state
};

}  // namespace lacuna
