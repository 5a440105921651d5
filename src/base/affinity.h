// Cores that threads may run on.
#pragma once

#include <vector>

namespace lacuna {

/// Numbers of the cores that the calling thread may run on; none where the system binds no thread to a core.
std::vector<int> usable_cores();
/// How many these are, at least 1; on macOS the number of fast cores.
int num_usable_cores();

/// Binds the calling thread to one of usable_cores().
void bind_to_core(int core);

}  // namespace lacuna
