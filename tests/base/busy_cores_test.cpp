#include "base/busy_cores.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

namespace lacuna::busy_cores_test {
namespace {

TEST(BusyThreads, AreCountedWhetherTheyRunOrWaitForACore) {
  if (!std::filesystem::exists("/proc/loadavg")) GTEST_SKIP() << "this system does not say";
  constexpr int kThreads = 6;
  std::atomic<int> num_started = 0;
  std::atomic<bool> stop = false;
  std::vector<std::jthread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      ++num_started;
      while (!stop) {
      }
    });
  }
  while (num_started < kThreads) std::this_thread::yield();
  // A thread that moves between cores, or waits for its memory, is not counted in that moment.
  constexpr int kMaxTries = 1000;
  int busy = 0;
  for (int i = 0; i < kMaxTries && busy < kThreads; ++i) busy = num_busy_threads();
  stop = true;
  EXPECT_GE(busy, kThreads);
}

TEST(BusyThreads, AreNeverFewerThanNone) {
  EXPECT_GE(num_busy_threads(), 0);
}

}  // namespace
}  // namespace lacuna::busy_cores_test
