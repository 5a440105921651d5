// Checks whether an allocation would risk an out-of-memory kill.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

namespace lacuna {

/// Reads the free memory of the machine and of the process's control groups (AvailableMemory::before_kill) at
/// most once per kLookEvery, or per kLookOften if less than kNear is free. Thread-safe.
class MemoryGuard {
 public:
  static constexpr std::chrono::milliseconds kLookEvery{10};
  static constexpr std::chrono::milliseconds kLookOften{1};
  static constexpr int64_t kNear = int64_t{512} << 20;
  /// Bytes that are kept free for allocations that do not call has().
  static constexpr int64_t kReserve = int64_t{48} << 20;

  ///   free_bytes  returns the free memory; empty: that of this process
  explicit MemoryGuard(std::function<int64_t()> free_bytes = {});

  /// Reserves bytes for a job that will allocate them without calling has().
  void reserve(int64_t bytes) noexcept { reserved_ += bytes; }
  void release(int64_t bytes) noexcept { reserved_ -= bytes; }

  /// Whether `bytes` more fit besides kReserve and the reservations of others. Never throws.
  ///   own  bytes that the caller has reserved
  bool has(int64_t bytes, int64_t own = 0) noexcept;

 private:
  std::function<int64_t()> free_bytes_;
  std::atomic<int64_t> reserved_{0};
  std::atomic<int64_t> looked_at_{INT64_MIN};  // nanoseconds of the steady clock
  std::atomic<int64_t> free_{0};
};

}  // namespace lacuna
