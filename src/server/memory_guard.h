// Whether the process may still take memory without being ended by the kernel.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

namespace lacuna {

/// Looks at the memory of the machine and of the process's control groups (AvailableMemory::before_kill), at
/// most once in kLookEvery, or in kLookOften where less than kNear is left. Thread-safe.
class MemoryGuard {
 public:
  static constexpr std::chrono::milliseconds kLookEvery{10};
  static constexpr std::chrono::milliseconds kLookOften{1};
  static constexpr int64_t kNear = int64_t{512} << 20;
  /// Bytes that are left for everything that does not ask.
  static constexpr int64_t kReserve = int64_t{48} << 20;

  ///   free_bytes  memory that may still be taken; empty: that of this process
  explicit MemoryGuard(std::function<int64_t()> free_bytes = {});

  /// Reserves bytes for a job that will allocate as many without calling has() for each allocation.
  void reserve(int64_t bytes) noexcept { reserved_ += bytes; }
  void release(int64_t bytes) noexcept { reserved_ -= bytes; }

  /// Whether this many bytes more fit, next to what others reserved and kReserve. Never throws.
  ///   own  bytes that the caller reserved
  bool has(int64_t bytes, int64_t own = 0) noexcept;

 private:
  std::function<int64_t()> free_bytes_;
  std::atomic<int64_t> reserved_{0};
  std::atomic<int64_t> looked_at_{INT64_MIN};  // of a steady clock, nanoseconds
  std::atomic<int64_t> free_{0};
};

}  // namespace lacuna
