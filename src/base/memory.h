// Memory that this process may still allocate.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace lacuna {

struct AvailableMemory {
  int64_t bytes = 0;
  /// Whether a control group (a container, a systemd unit) allows less than the machine has.
  bool limited_by_group = false;
  /// `bytes`, plus the group's active file pages: the kernel reclaims them before it kills a process of the
  /// group.
  int64_t before_kill = 0;
};

/// The smaller of two figures: Linux's estimate without swapping (MemAvailable), and the rest below the
/// tightest memory limit of the process's control groups (v1 and v2). Reclaimable page cache counts as free
/// in both.
///   root  the folder that holds proc and sys/fs/cgroup
AvailableMemory available_memory(const std::filesystem::path& root = "/");

/// Formats a size: "15.3 GiB".
std::string human_bytes(int64_t bytes);

}  // namespace lacuna
