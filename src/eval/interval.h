// How far a measured share may be from the true one.
#pragma once

#include <cstdint>

namespace lacuna {

struct Interval {
  double low = 0;
  double high = 1;

  bool operator==(const Interval&) const = default;
};

/// Wilson's score interval of a share, 95%: unlike the normal approximation it stays within [0, 1] and keeps
/// its width where all or none succeed. [0, 1] without trials.
Interval wilson_interval(int64_t successes, int64_t trials);

}  // namespace lacuna
