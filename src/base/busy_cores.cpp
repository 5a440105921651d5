#include "base/busy_cores.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <sstream>
#include <thread>

#include "base/read_file.h"

namespace lacuna {
namespace {

/// Number of runnable threads, from "0.50 0.41 0.33 2/196 4711"; 1, this thread, if there is no such file.
int num_runnable_threads() {
  std::istringstream file(read_kernel_file("/proc/loadavg"));
  double averages[3] = {};
  int runnable = 0;
  return file >> averages[0] >> averages[1] >> averages[2] >> runnable ? runnable : 1;
}

}  // namespace

int num_busy_threads() {
  constexpr int kSamples = 5;
  int fewest = std::numeric_limits<int>::max();
  for (int i = 0; i < kSamples; ++i) {
    if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    fewest = std::min(fewest, num_runnable_threads());
  }
  return std::max(0, fewest - 1);
}

}  // namespace lacuna
