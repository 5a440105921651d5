#include "eval/interval.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/rng.h"

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

Interval bootstrap_interval(std::span<const RatioPart> items, uint64_t seed) {
  constexpr uint64_t kResamples = 1000;
  std::vector<double> ratios;
  const auto count = static_cast<uint32_t>(items.size());
  for (uint64_t resample = 0; resample < kResamples && count > 0; ++resample) {
    const RngStream random(seed, resample);
    RatioPart sum{0, 0};
    for (uint64_t i = 0; i < count; ++i) {
      const RatioPart& item = items[random.below(i, count)];
      sum.numerator += item.numerator;
      sum.denominator += item.denominator;
    }
    if (sum.denominator > 0) ratios.push_back(sum.numerator / sum.denominator);
  }
  if (ratios.empty()) return {0, 0};
  std::sort(ratios.begin(), ratios.end());
  // Nearest ranks, symmetric at both ends.
  const size_t skipped = ratios.size() / 40;
  return {ratios[skipped], ratios[ratios.size() - 1 - skipped]};
}

}  // namespace lacuna
