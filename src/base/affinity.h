// Which cores threads run on.
#pragma once

#include "base/threads.h"

namespace lacuna {

/// Cores that the calling thread may run on.
int num_usable_cores();

/// Binds each thread that the pool started to a core of its own, of those that the caller may use. The caller
/// stays free to move, as threads that it starts later inherit what binds it; it finds the first of these
/// cores left over. InputError where the pool has more threads than there are cores.
void pin_workers(ThreadPool& threads);

}  // namespace lacuna
