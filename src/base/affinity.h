// Cores that threads may run on.
#pragma once

#include <vector>

namespace lacuna {

/// Numbers of the cores that the calling thread may run on.
std::vector<int> usable_cores();
int num_usable_cores();

/// Binds the calling thread to a core.
void bind_to_core(int core);

}  // namespace lacuna
