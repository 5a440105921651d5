#pragma once

#include <chrono>

namespace lacuna {

/// Seconds since it was made or last restarted, by a clock that never goes back.
class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  /// The seconds so far; starts again from zero.
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
