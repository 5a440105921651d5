// Cores that threads may run on, and whether other programs use them.
#pragma once

#include <string_view>
#include <vector>

namespace lacuna {

/// Numbers of the cores that the calling thread may run on; empty if the system cannot bind threads to cores.
std::vector<int> usable_cores();
/// Number of cores that the calling thread may run on, at least 1; on macOS the number of fast cores.
int num_usable_cores();

/// Sorts `cores`: the first hardware thread of each physical core before the second of any.
std::vector<int> physical_cores_first(std::vector<int> cores);
/// Counts the numbers below `number` in a Linux CPU list, such as "0,2-5,8".
int count_below(std::string_view list, int number);

/// Number of threads on this machine that run now, except the calling one. Samples for 20 ms, so that brief
/// wake-ups do not count. 0 if the system does not report it.
int num_busy_threads();

/// Binds the calling thread to one of usable_cores().
void bind_to_core(int core);

}  // namespace lacuna
