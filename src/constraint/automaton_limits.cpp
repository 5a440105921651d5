#include "constraint/automaton_limits.h"

#include "base/budget.h"

namespace lacuna {

void AutomatonLimits::spend(size_t visits, std::string_view what) {
  spend_steps(visits);
  work -= static_cast<int64_t>(visits);
  if (work < 0) throw AutomatonTooLarge("the {} is too large: it takes too long to compile", what);
}

void AutomatonLimits::check_size(size_t num_states, size_t num_transitions, std::string_view what) const {
  if (num_states > static_cast<size_t>(states))
    throw AutomatonTooLarge("the {} is too large: it needs more than {} states", what, states);
  if (num_transitions > static_cast<size_t>(transitions))
    throw AutomatonTooLarge("the {} is too large: it needs more than {} transitions", what, transitions);
}

}  // namespace lacuna
