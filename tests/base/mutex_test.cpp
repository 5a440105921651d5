#include "base/mutex.h"

#include <gmock/gmock.h>

#include <thread>
#include <vector>

namespace lacuna::mutex_test {
namespace {

/// A number that several threads count.
struct Counter {
  Mutex mutex;
  Condition changed;
  int count LACUNA_GUARDED_BY(mutex) = 0;

  void add() {
    const MutexLock lock(mutex);
    const int before = count;
    std::this_thread::yield();  // others run now, if they can
    count = before + 1;
    changed.notify_all();
  }
};

TEST(Mutex, LetsOneThreadAtATimeIn) {
  constexpr int kThreads = 4, kRounds = 50;
  Counter counter;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) counter.add();
    });
  }
  for (std::thread& thread : threads) thread.join();
  const MutexLock lock(counter.mutex);
  EXPECT_EQ(counter.count, kThreads * kRounds);
}

TEST(Condition, WakesAWaiterThatLetsGoOfTheMutexMeanwhile) {
  Counter counter;
  std::thread other([&] {
    for (int i = 0; i < 3; ++i) counter.add();
  });
  {
    const MutexLock lock(counter.mutex);
    while (counter.count < 3) counter.changed.wait(counter.mutex);
    EXPECT_EQ(counter.count, 3);
  }
  other.join();
}

TEST(Condition, EndsAWaitWithoutANotificationAndHoldsTheMutexAgain) {
  Counter counter;
  const MutexLock lock(counter.mutex);
  counter.changed.wait_for(counter.mutex, std::chrono::milliseconds(1));
  counter.changed.wait_until(counter.mutex, std::chrono::steady_clock::now());
  EXPECT_EQ(counter.count, 0);
}

}  // namespace
}  // namespace lacuna::mutex_test
