#include "base/affinity.h"

#ifdef __APPLE__
#include <sys/sysctl.h>
#else
#include <sched.h>
#endif

#include <algorithm>
#include <thread>

namespace lacuna {

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
