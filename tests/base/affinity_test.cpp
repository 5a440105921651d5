#include "base/affinity.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <latch>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/threads.h"

namespace lacuna::affinity_test {
namespace {

TEST(ThreadPool, HasAThreadForEachCoreThatTheProcessMayUse) {
  EXPECT_EQ(ThreadPool(0).size(), num_usable_cores());
  std::thread([] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(sched_getcpu(), &set);
    ASSERT_EQ(sched_setaffinity(0, sizeof(set), &set), 0);  // of this thread alone
    EXPECT_EQ(ThreadPool(0).size(), 1);
  }).join();
}

TEST(PinWorkers, BindsEachWorkerToOneCoreAndLeavesTheCallerFree) {
  const int cores = num_usable_cores();
  ASSERT_GE(cores, 1);
  ThreadPool pool(cores);
  pin_workers(pool);
  EXPECT_EQ(num_usable_cores(), cores);
  std::vector<int> cores_of(static_cast<size_t>(cores));
  std::vector<int> core_of(cores_of.size());
  std::latch all_taken(cores);
  pool.parallel_for(cores, [&](int64_t, int thread) {
    all_taken.arrive_and_wait();
    cores_of[static_cast<size_t>(thread)] = num_usable_cores();
    core_of[static_cast<size_t>(thread)] = sched_getcpu();
  });
  for (size_t thread = 1; thread < cores_of.size(); ++thread) {
    EXPECT_EQ(cores_of[thread], 1) << "thread " << thread;
    for (size_t other = 1; other < thread; ++other) EXPECT_NE(core_of[thread], core_of[other]);
  }
}

TEST(Cores, OfAListAreCountedBelowANumber) {
  EXPECT_EQ(count_below("0,16", 0), 0);
  EXPECT_EQ(count_below("0,16", 16), 1);
  EXPECT_EQ(count_below("0-1", 1), 1);
  EXPECT_EQ(count_below("2-5,8,10-11", 5), 3);
  EXPECT_EQ(count_below("2-5,8,10-11", 11), 6);
  EXPECT_EQ(count_below("2-5,8,10-11", 100), 7);
  EXPECT_EQ(count_below("", 3), 0);
  EXPECT_EQ(count_below("none", 3), 0);
}

TEST(Cores, StayTheSameWhenPhysicalOnesComeFirst) {
  const std::vector<int> cores = usable_cores();
  std::vector<int> ordered = physical_cores_first(cores);
  EXPECT_EQ(ordered.size(), cores.size());
  std::sort(ordered.begin(), ordered.end());
  EXPECT_EQ(ordered, cores);
}

TEST(PinWorkers, RefusesMoreThreadsThanCores) {
  ThreadPool pool(num_usable_cores() + 1);
  EXPECT_THROW(pin_workers(pool), InputError);
}

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
}  // namespace lacuna::affinity_test
