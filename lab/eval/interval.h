// Confidence intervals of measured shares and ratios.
#pragma once

#include <cstdint>
#include <span>

namespace lacuna {

struct Interval {
  double low = 0;
  double high = 1;

  bool operator==(const Interval&) const = default;
};

/// Wilson's 95% score interval of a share. Unlike the normal approximation it stays within [0, 1] and has a
/// positive width if all or no trials succeed. [0, 1] without trials.
Interval wilson_interval(int64_t successes, int64_t trials);

/// One item's terms in a ratio of two sums.
struct RatioPart {
  double numerator = 0;
  double denominator = 1;  ///< at least 0; 1 for a mean
};

/// 95% percentile bootstrap (Efron 1979) of sum(numerators) / sum(denominators), from 1,000 resamples of the
/// items with replacement; deterministic for a seed. Resamples with a zero denominator are left out; [0, 0]
/// if none remains.
Interval bootstrap_interval(std::span<const RatioPart> items, uint64_t seed);

}  // namespace lacuna
