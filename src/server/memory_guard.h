// Whether the process may still take memory without being ended by the kernel.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

namespace lacuna {

/// Looks at the memory of the machine and of the process's control groups (AvailableMemory::before_kill), at
/// most once in kLookEvery. Thread-safe.
class MemoryGuard {
 public:
  static constexpr std::chrono::milliseconds kLookEvery{10};
  /// Bytes that are left for everything that does not ask.
  static constexpr int64_t kReserve = int64_t{48} << 20;

  ///   free_bytes  memory that may still be taken; empty: that of this process
  explicit MemoryGuard(std::function<int64_t()> free_bytes = {});

  /// Whether this many bytes more fit, and the reserve. Never throws.
  bool has(int64_t bytes) noexcept;

 private:
  std::function<int64_t()> free_bytes_;
  std::atomic<int64_t> looked_at_{INT64_MIN};  // of a steady clock, nanoseconds
  std::atomic<int64_t> free_{0};
};

}  // namespace lacuna
