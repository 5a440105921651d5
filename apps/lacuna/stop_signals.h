#pragma once

#include <atomic>

namespace lacuna {

/// From now on the first Ctrl-C (SIGINT) or SIGTERM sets the flag, so that long work can end in order, and a
/// second one ends the program. The flag lives as long as the program.
const std::atomic<bool>& stop_on_signals();

}  // namespace lacuna
