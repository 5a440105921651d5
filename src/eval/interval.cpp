#include "eval/interval.h"

#include <algorithm>
#include <cmath>

namespace lacuna {

Interval wilson_interval(int64_t successes, int64_t trials) {
  if (trials <= 0) return {};
  constexpr double kZ = 1.959963984540054;  // the normal distribution's 97.5th percentile
  const auto n = static_cast<double>(trials);
  const double share = static_cast<double>(successes) / n;
  const double scale = 1 / (1 + kZ * kZ / n);
  const double centre = scale * (share + kZ * kZ / (2 * n));
  const double half = scale * kZ * std::sqrt(share * (1 - share) / n + kZ * kZ / (4 * n * n));
  return {std::max(0.0, centre - half), std::min(1.0, centre + half)};
}

}  // namespace lacuna
