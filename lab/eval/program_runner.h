// Runs a Python program that a model wrote, in a child process with limits. This is not a sandbox: the
// program runs as the user who runs Lacuna and can read what he can read, write where he can write, and start
// processes. Limits hold accidents (endless loops, memory, huge files); for anything else use a container or
// a machine of its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace lacuna {

struct ProgramLimits {
  std::chrono::milliseconds time{10'000};  ///< on the clock; processor time is limited to the same
  int64_t memory = int64_t{2} << 30;       ///< bytes of address space
  int64_t file_size = int64_t{16} << 20;   ///< bytes of each file it writes
};

/// Whether `program` ran to its end without an error, within the limits. It runs in a new, empty folder that
/// is removed, without input, output or environment, cut off from the network where the system lets an
/// ordinary user do so (a user and network namespace of Linux), and all processes of its group are ended with
/// it. Programs that leave early, even with exit code 0, do not pass. limits_that_are_missing() says what
/// else the system lacks.
///   python  a path, or a name to be found in /usr/local/bin, /usr/bin and /bin
bool passes(const std::string& python, std::string_view program, const ProgramLimits& limits = {});

/// A sentence about what this system does not limit; empty where it limits everything.
std::string limits_that_are_missing();

/// InputError, naming the flag --run-tests, where `python` cannot run an empty program.
void check_python(const std::string& python);

}  // namespace lacuna
