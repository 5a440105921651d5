// Other programs that compute on this machine.
#pragma once

namespace lacuna {

/// Number of threads on this machine that run now, except the calling one. Samples for 20 ms, so that brief
/// wake-ups do not count. 0 if the system does not report it.
int num_busy_threads();

}  // namespace lacuna
