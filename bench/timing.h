// Timing, and statistics of timings.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace lacuna {

template <typename Run>
double seconds_of(Run&& run) {
  const Stopwatch clock;
  run();
  return clock.seconds();
}

/// Repeats `run` for 40 ms, so that threads of earlier work go to sleep: oneDNN's spin for some 20 ms.
template <typename Run>
void warm_up(Run&& run) {
  const Stopwatch clock;
  do run();
  while (clock.seconds() < 0.04);
}

/// Median of at least one value.
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// Median of numerators[i] / denominators[i]: disturbances affect both timings of an interleaved pair.
inline double median_ratio(const std::vector<double>& numerators, const std::vector<double>& denominators) {
  std::vector<double> ratios;
  for (size_t i = 0; i < numerators.size(); ++i) ratios.push_back(numerators[i] / denominators[i]);
  return median(std::move(ratios));
}

}  // namespace lacuna
