// How long the holes of a canvas have to be for its text to be possible.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "constraint/feasible.h"

namespace lacuna {

/// Consecutive open positions that may become more.
struct StretchableHole {
  size_t begin = 0;
  size_t end = 0;   ///< one past the last; end > begin
  size_t most = 0;  ///< positions at most; at least end - begin
};

/// The lengths, each at least that on the canvas, with which some tokens for the open positions give an
/// accepted text: of all such lengths those with the smallest sum; of these the last hole has the smallest,
/// then the one before it. Empty where no lengths are possible, or more than kMaxExtraPositions would be
/// needed, fewer with an automaton of many states.
///   holes  ascending and disjoint
std::optional<std::vector<size_t>> fitting_lengths(const TokenAutomaton& automaton,
                                                   const ConstrainedCanvas& canvas,
                                                   std::span<const StretchableHole> holes);

inline constexpr size_t kMaxExtraPositions = 4096;

}  // namespace lacuna
