// Limits on the compilation of an automaton.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"

namespace lacuna {

/// Limits of one compilation. Work is counted, not timed: whether a constraint is accepted does not depend on
/// the machine.
struct AutomatonLimits {
  int states = 20'000;          ///< states of a deterministic automaton before minimization; below kNoState
  int transitions = 2'000'000;  ///< (state, symbol class) pairs with a next state
  int parts = 400'000;          ///< states and edges of the nondeterministic automaton
  /// Remaining visits of states and transitions, about 250 ms. Each compilation subtracts its visits, so that
  /// several can share one limit.
  int64_t work = 60'000'000;

  /// Subtracts `visits` from `work`. Throws AutomatonTooLarge if fewer are left.
  void spend(size_t visits, std::string_view what);
  /// Throws AutomatonTooLarge if a deterministic automaton exceeds `states` or `transitions`.
  void check_size(size_t num_states, size_t num_transitions, std::string_view what) const;
};

/// Thrown when an AutomatonLimits is exceeded; an InputError.
class AutomatonTooLarge : public InputError {
 public:
  using InputError::InputError;
};

}  // namespace lacuna
