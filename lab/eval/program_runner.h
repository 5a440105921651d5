// Runs a Python program that a model wrote, in a child process with limits. This is not a sandbox: the
// program has all rights of the user who runs Lacuna, including access to files and starting processes. The
// limits contain accidents only (endless loops, memory, huge files); otherwise use a container.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace lacuna {

struct ProgramLimits {
  std::chrono::milliseconds time{10'000};  ///< wall time; CPU time has the same limit
  int64_t memory = int64_t{2} << 30;       ///< bytes of address space
  int64_t file_size = int64_t{16} << 20;   ///< bytes of each file it writes
};

/// Whether `program` ran to its end without an error, within the limits. It runs in a new, empty, temporary
/// folder, without input, output or environment. If the system lets ordinary users do so (Linux user and
/// network namespaces), it runs without network. Its process group is killed at the end. Programs that exit
/// early, even with exit code 0, do not pass. See also limits_that_are_missing().
///   python  a path, or a name that is searched in /usr/local/bin, /usr/bin and /bin
bool passes(const std::string& python, std::string_view program, const ProgramLimits& limits = {});

/// A sentence that names the limits this system does not support; empty if it supports all.
std::string limits_that_are_missing();

/// Throws InputError, which names the flag --run-tests, if `python` cannot run an empty program.
void check_python(const std::string& python);

}  // namespace lacuna
