#pragma once

#include <atomic>

namespace lacuna {

/// Installs handlers: the first SIGINT (Ctrl-C) or SIGTERM sets the returned flag, so that long work can stop
/// cleanly; a second one ends the program. The flag is never destroyed.
const std::atomic<bool>& stop_on_signals();

}  // namespace lacuna
