#include "base/threads.h"

#include <gmock/gmock.h>

#include <atomic>
#include <numeric>

namespace lacuna::threads_test {
namespace {

TEST(ThreadPool, CountsTheCaller) {
  EXPECT_EQ(ThreadPool(1).size(), 1);
  EXPECT_EQ(ThreadPool(3).size(), 3);
  EXPECT_GE(ThreadPool(0).size(), 1);
}

TEST(ThreadPool, CallsEachIndexOnceWithAThreadOfThePool) {
  for (const int num_threads : {1, 2, 3, 8, 9, 10, 40}) {
    ThreadPool pool(num_threads);
    for (const int64_t count : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> calls(static_cast<size_t>(count));
      std::atomic<bool> known_thread = true;
      pool.parallel_for(count, [&](int64_t index, int thread) {
        ++calls[static_cast<size_t>(index)];
        if (thread < 0 || thread >= pool.size()) known_thread = false;
      });
      EXPECT_THAT(std::vector<int>(calls.begin(), calls.end()), testing::Each(1))
          << count << " indices, " << num_threads << " threads";
      EXPECT_TRUE(known_thread);
    }
  }
}

TEST(ThreadPool, ReturnsWhenAllCallsHaveReturned) {
  ThreadPool pool(3);
  for (int64_t round = 1; round <= 2000; ++round) {
    std::vector<int64_t> written(5);  // plain memory: a call that outlived its loop would be a race
    pool.parallel_for(5, [&](int64_t index, int) { written[static_cast<size_t>(index)] = round; });
    ASSERT_THAT(written, testing::Each(round));
  }
}

TEST(ThreadPool, GivesEachThreadItsOwnNumber) {
  ThreadPool pool(4);
  std::vector<int64_t> calls_by_thread(4);  // each thread counts in its own element
  pool.parallel_for(10'000, [&](int64_t, int thread) { ++calls_by_thread[static_cast<size_t>(thread)]; });
  EXPECT_EQ(std::accumulate(calls_by_thread.begin(), calls_by_thread.end(), int64_t{0}), 10'000);
}

TEST(ThreadPool, TakesAConstBody) {
  ThreadPool pool(2);
  std::atomic<int64_t> sum = 0;
  const auto body = [&sum](int64_t index, int) { sum += index; };
  pool.parallel_for(10, body);
  EXPECT_EQ(sum, 45);
}

TEST(ThreadPool, EndsWithoutEverHavingRunALoop) {
  for (int i = 0; i < 50; ++i) ThreadPool pool(4);
}

}  // namespace
}  // namespace lacuna::threads_test
