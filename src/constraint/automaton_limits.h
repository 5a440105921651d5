// Bounds of the compilation of an automaton.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"

namespace lacuna {

/// Bounds of a compilation. Work is counted, not timed: whether a constraint is accepted does not depend on
/// the machine.
struct AutomatonLimits {
  int states = 20'000;          ///< states of a deterministic automaton before minimization; below kNoState
  int transitions = 2'000'000;  ///< (state, class of symbols) pairs that lead anywhere
  int parts = 400'000;          ///< states and edges of the nondeterministic automaton
  /// Visits of states and transitions that are left, about 250 ms. Compilations subtract theirs, so that
  /// several can share it.
  int64_t work = 60'000'000;

  /// Throws AutomatonTooLarge if there is not so much left.
  void spend(size_t visits, std::string_view what);
  /// Throws AutomatonTooLarge if a deterministic automaton has more.
  void check_size(size_t num_states, size_t num_transitions, std::string_view what) const;
};

/// Thrown when an AutomatonLimits is exceeded; an InputError.
class AutomatonTooLarge : public InputError {
 public:
  using InputError::InputError;
};

}  // namespace lacuna
