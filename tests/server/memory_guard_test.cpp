#include "server/memory_guard.h"

#include <gmock/gmock.h>

#include <thread>

namespace lacuna::memory_guard_test {
namespace {

TEST(MemoryGuard, KeepsAReserve) {
  int64_t free = MemoryGuard::kReserve + 100;
  MemoryGuard guard([&] { return free; });
  EXPECT_TRUE(guard.has(100));
  EXPECT_FALSE(guard.has(101));
}

TEST(MemoryGuard, KeepsWhatOthersReserved) {
  MemoryGuard guard([] { return MemoryGuard::kReserve + 100; });
  guard.reserve(60);
  guard.reserve(30);
  EXPECT_TRUE(guard.has(10));
  EXPECT_FALSE(guard.has(11));
  EXPECT_TRUE(guard.has(70, 60));
  EXPECT_FALSE(guard.has(71, 60));
  guard.release(60);
  EXPECT_TRUE(guard.has(70));
  EXPECT_FALSE(guard.has(71));
}

TEST(MemoryGuard, LooksAgainNowAndThen) {
  int64_t free = 0;
  int num_looks = 0;
  MemoryGuard guard([&] {
    ++num_looks;
    return free;
  });
  for (int i = 0; i < 100'000; ++i) EXPECT_FALSE(guard.has(0));
  EXPECT_LT(num_looks, 50'000);
  free = MemoryGuard::kReserve;
  std::this_thread::sleep_for(2 * MemoryGuard::kLookEvery);
  EXPECT_TRUE(guard.has(0));
}

TEST(MemoryGuard, KnowsThisProcess) {
  EXPECT_TRUE(MemoryGuard().has(1));
  EXPECT_FALSE(MemoryGuard().has(int64_t{1} << 60));
}

}  // namespace
}  // namespace lacuna::memory_guard_test
