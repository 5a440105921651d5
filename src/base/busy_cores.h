// Other programs that compute on this machine.
#pragma once

namespace lacuna {

/// Threads of other programs, or of this one, that compute now, without the calling thread. Takes 20 ms, so
/// that a program that wakes up for a moment does not count. 0 where the system does not say.
int num_busy_threads();

}  // namespace lacuna
