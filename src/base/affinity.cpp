#include "base/affinity.h"

#include <sched.h>

#include <latch>
#include <vector>

#include "base/error.h"

namespace lacuna {
namespace {

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

}  // namespace

int num_usable_cores() {
  return static_cast<int>(usable_cores().size());
}

void pin_workers(ThreadPool& threads) {
  const std::vector<int> cores = usable_cores();
  if (threads.size() > static_cast<int>(cores.size())) {
    throw InputError(
        "--pin binds {} threads to cores of their own; expected at most {}, the cores that it may use",
        threads.size(), cores.size());
  }
  // One index per thread, and no call returns before all are taken: each thread takes one.
  std::latch all_taken(threads.size());
  threads.parallel_for(threads.size(), [&](int64_t, int thread) {
    all_taken.arrive_and_wait();
    if (thread == 0) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cores[static_cast<size_t>(thread)], &set);
    sched_setaffinity(0, sizeof(set), &set);  // of the calling thread
  });
}

}  // namespace lacuna
