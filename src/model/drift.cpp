#include "model/drift.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lacuna {

Drift measure_drift(std::span<const float> now, std::span<const float> before) {
  const float now_max = *std::max_element(now.begin(), now.end());
  const float before_max = *std::max_element(before.begin(), before.end());
  double now_sum = 0;
  double before_sum = 0;
  double weighted = 0;
  float least_change = std::numeric_limits<float>::infinity();
  float most_change = -least_change;
  for (size_t i = 0; i < now.size(); ++i) {
    const double weight = std::exp(now[i] - now_max);
    const float change = now[i] - before[i];
    now_sum += weight;
    before_sum += std::exp(before[i] - before_max);
    weighted += weight * change;
    least_change = std::min(least_change, change);
    most_change = std::max(most_change, change);
  }
  const double normaliser = now_max + std::log(now_sum) - (before_max + std::log(before_sum));
  Drift drift;
  drift.kl = std::max(0.0, weighted / now_sum - normaliser);
  drift.max_log_change = std::max(std::abs(most_change - normaliser), std::abs(least_change - normaliser));
  if (!std::isfinite(weighted) || !std::isfinite(normaliser)) {
    drift.kl = drift.max_log_change = std::numeric_limits<double>::infinity();
  }
  return drift;
}

CosineSums cosine_sums(std::span<const float> a, std::span<const float> b) {
  CosineSums sums;
  for (size_t i = 0; i < a.size(); ++i) {
    sums.product += double{a[i]} * b[i];
    sums.squares_a += double{a[i]} * a[i];
    sums.squares_b += double{b[i]} * b[i];
  }
  return sums;
}

double cosine_distance(const CosineSums& sums) {
  if (sums.squares_a == 0 && sums.squares_b == 0) return 0;
  const double norms = std::sqrt(sums.squares_a * sums.squares_b);
  return norms > 0 ? 1 - sums.product / norms : 1;
}

double cosine_distance(std::span<const float> a, std::span<const float> b) {
  return cosine_distance(cosine_sums(a, b));
}

}  // namespace lacuna
