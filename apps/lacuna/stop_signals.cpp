#include "stop_signals.h"

#include <csignal>

namespace lacuna {
namespace {

std::atomic<bool> wants_to_stop_work{false};

extern "C" void note_stop_signal(int /*signal*/) {
  wants_to_stop_work = true;
}

}  // namespace

const std::atomic<bool>& stop_on_signals() {
  struct sigaction action {};
  action.sa_handler = note_stop_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  return wants_to_stop_work;
}

}  // namespace lacuna
