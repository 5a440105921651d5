#include "server/memory_guard.h"

#include <exception>
#include <utility>

#include "base/memory.h"

namespace lacuna {

MemoryGuard::MemoryGuard(std::function<int64_t()> free_bytes) : free_bytes_(std::move(free_bytes)) {
  if (!free_bytes_) free_bytes_ = [] { return available_memory().before_kill; };
}

bool MemoryGuard::has(int64_t bytes, int64_t own) noexcept {
  const int64_t now = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  int64_t before = looked_at_;
  const bool is_first = before == INT64_MIN;  // then every thread reads the value itself
  const std::chrono::nanoseconds interval = free_ < kNear ? kLookOften : kLookEvery;
  const bool is_old = is_first || now - before >= interval.count();
  if (is_first || (is_old && looked_at_.compare_exchange_strong(before, now))) {
    try {
      free_ = free_bytes_();
    } catch (const std::exception&) {  // no memory for the check
      free_ = 0;
    }
    looked_at_ = now;
  }
  return free_ >= bytes + reserved_ - own + kReserve;
}

}  // namespace lacuna
