// How far a measured share may be from the true one.
#pragma once

#include <cstdint>
#include <span>

namespace lacuna {

struct Interval {
  double low = 0;
  double high = 1;

  bool operator==(const Interval&) const = default;
};

/// Wilson's score interval of a share, 95%: unlike the normal approximation it stays within [0, 1] and keeps
/// its width where all or none succeed. [0, 1] without trials.
Interval wilson_interval(int64_t successes, int64_t trials);

/// An item's part of a ratio of two sums.
struct RatioPart {
  double numerator = 0;
  double denominator = 1;  ///< at least 0; 1 for a mean
};

/// Percentile bootstrap (Efron 1979), 95%, of sum(numerators) / sum(denominators) over items that are drawn
/// with replacement, 1,000 times: a function of the items and the seed. Draws without a denominator are left
/// out; [0, 0] without items or where all are.
Interval bootstrap_interval(std::span<const RatioPart> items, uint64_t seed);

}  // namespace lacuna
