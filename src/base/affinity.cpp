#include "base/affinity.h"

#include <fmt/format.h>
#ifdef __APPLE__
#include <sys/sysctl.h>
#else
#include <sched.h>
#endif

#include <algorithm>
#include <charconv>
#include <chrono>
#include <limits>
#include <sstream>
#include <thread>
#include <utility>

#include "base/read_file.h"

namespace lacuna {
namespace {

/// Number of hardware threads of the same physical core with a lower number; 0 if unknown.
int siblings_before(int core) {
  return count_below(
      read_kernel_file(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", core)),
      core);
}

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

int count_below(std::string_view list, int number) {
  int count = 0, first = 0;
  const char* at = list.data();
  const char* const end = at + list.size();
  bool is_range = false;
  while (at < end) {
    int value = 0;
    const auto [after, error] = std::from_chars(at, end, value);
    if (error != std::errc()) break;
    first = is_range ? first : value;
    is_range = after < end && *after == '-';
    if (!is_range) count += std::max(0, std::min(value, number - 1) - first + 1);
    at = after + 1;
  }
  return count;
}

std::vector<int> physical_cores_first(std::vector<int> cores) {
  std::vector<std::pair<int, int>> ranked;
  ranked.reserve(cores.size());
  for (const int core : cores) ranked.emplace_back(siblings_before(core), core);
  std::sort(ranked.begin(), ranked.end());
  std::transform(ranked.begin(), ranked.end(), cores.begin(), [](const auto& each) { return each.second; });
  return cores;
}

#ifdef __APPLE__
std::vector<int> usable_cores() {
  return {};
}

void bind_to_core(int /*core*/) {}

int num_usable_cores() {
  // Loops wait for their slowest thread: the slow cores of Apple's processors would hold up the others.
  int fast_cores = 0;
  size_t size = sizeof fast_cores;
  if (::sysctlbyname("hw.perflevel0.physicalcpu", &fast_cores, &size, nullptr, 0) == 0 && fast_cores > 0)
    return fast_cores;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}
#else
std::vector<int> usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

void bind_to_core(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

int num_usable_cores() {
  return std::max(1, static_cast<int>(usable_cores().size()));
}
#endif

}  // namespace lacuna
