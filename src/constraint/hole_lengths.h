// Lengths of a canvas's holes for which its text can be completed.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "constraint/feasible.h"

namespace lacuna {

/// A run of open positions that may grow.
struct StretchableHole {
  size_t begin = 0;
  size_t end = 0;   ///< one past the last; end > begin
  size_t most = 0;  ///< maximum length; at least end - begin
};

/// Lengths of the holes, none below its current one, for which the open positions can be filled to an
/// accepted text. The sum is the smallest possible; ties prefer the shortest last hole, then the one before
/// it. Empty if this needs more than kMaxExtraPositions extra positions (fewer for large automata).
///   holes  ascending and disjoint
std::optional<std::vector<size_t>> fitting_lengths(const TokenAutomaton& automaton,
                                                   const ConstrainedCanvas& canvas,
                                                   std::span<const StretchableHole> holes);

inline constexpr size_t kMaxExtraPositions = 4096;

}  // namespace lacuna
