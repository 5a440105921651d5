// Memory that this process may still take.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace lacuna {

struct AvailableMemory {
  int64_t bytes = 0;
  /// Whether a control group (a container, a systemd unit) allows less than the machine has.
  bool limited_by_group = false;
  /// The same where the group's pages of files that are in use count as free, too: the kernel drops them
  /// before it ends a process of the group.
  int64_t before_kill = 0;
};

/// Available memory: what Linux estimates can be allocated without swapping (MemAvailable), or what the
/// tightest memory limit of the process's control groups (versions 1 and 2) leaves, whichever is less. Page
/// cache that can be dropped counts as free in both.
///   root  the folder that holds proc and sys/fs/cgroup
AvailableMemory available_memory(const std::filesystem::path& root = "/");

/// "15.3 GiB"
std::string human_bytes(int64_t bytes);

}  // namespace lacuna
