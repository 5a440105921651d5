#pragma once

#include <chrono>

namespace lacuna {

/// Stopwatch: seconds since construction or the last restart, on a monotonic clock.
class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  /// Returns the elapsed seconds and restarts.
  double restart() {
    const double elapsed = seconds();
    start_ = Clock::now();
    return elapsed;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

}  // namespace lacuna
