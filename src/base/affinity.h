// Binds threads to cores.
#pragma once

#include "base/threads.h"

namespace lacuna {

/// Cores that the calling thread may run on.
int num_usable_cores();

/// Binds each thread of the pool, except the caller, to its own core among those that the caller may use. The
/// caller stays unbound, because threads that it starts later inherit its mask; one of these cores is left
/// for it. Throws InputError if the pool has more threads than there are cores.
void pin_workers(ThreadPool& threads);

}  // namespace lacuna
