#include "server/handler_pool.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "server/api_error.h"

namespace lacuna::handler_pool_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr size_t kStepsOfLook = 1 << 14;

bool reaches(const std::atomic<int>& count, int wanted) {
  const Stopwatch clock;
  while (count < wanted && clock.seconds() < 60) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return count == wanted;
}

/// Jobs of which some work until their flag is set, and how they ended.
class Jobs {
 public:
  explicit Jobs(const HandlerLimits& limits) : pool(std::make_unique<HandlerPool>(limits)) {}
  ~Jobs() {
    wants_end = true;
    pool->stop();
  }
  Jobs(const Jobs&) = delete;
  Jobs& operator=(const Jobs&) = delete;

  /// Adds a job that works until wants_end.
  void add_endless(const std::string& client) {
    add(client, [this] {
      for (;;) spend_steps(kStepsOfLook / 4);
    });
  }

  template <typename Work>
  void add(const std::string& client, Work work) {
    pool->add({client, 0,
               [this, work](Budget::Observer& observer) {
                 const Budget budget("job", {.stop = &wants_end, .observer = &observer});
                 ++num_begun;
                 try {
                   work();
                 } catch (const ApiError& error) {
                   EXPECT_EQ(error.status(), 503);
                   EXPECT_THAT(error.what(), HasSubstr("take much work"));
                   ++num_refused_as_long;
                 } catch (const WorkCancelled&) {
                   ++num_cancelled;
                 }
                 most_steps_of_others = std::max<int64_t>(most_steps_of_others, budget.steps_spent());
               },
               [this] { ++num_refused; }});
  }

  std::atomic<bool> wants_end{false};
  std::atomic<int> num_begun{0}, num_refused{0}, num_refused_as_long{0}, num_cancelled{0};
  std::atomic<int64_t> most_steps_of_others{0};
  std::unique_ptr<HandlerPool> pool;
};

// The same address may be several clients behind a proxy: nothing depends on who asks.
TEST(HandlerPool, AnswersAShortRequestWhileAsManyEndlessOnesAsThreadsWereSent) {
  for (const char* honest : {"same", "other"}) {
    const HandlerLimits limits;
    Jobs jobs(limits);
    for (int i = 0; i < limits.threads; ++i) jobs.add_endless("same");
    std::atomic<int> num_answered{0};
    jobs.add(honest, [&] {
      spend_steps(10 * kStepsOfLook);
      ++num_answered;
    });
    EXPECT_TRUE(reaches(num_answered, 1));
    EXPECT_EQ(jobs.num_cancelled, 0);  // the endless ones continue, or gave up their places
    EXPECT_TRUE(
        reaches(jobs.num_refused_as_long, limits.threads - limits.long_jobs - limits.waiting_long_jobs));
    // The short one may have waited for all that each of those did before.
    EXPECT_LE(jobs.most_steps_of_others,
              static_cast<int64_t>((limits.long_checks + 2) * kStepsOfLook * 5 / 4));
  }
}

TEST(HandlerPool, AnswersManyShortRequestsBetweenEndlessOnes) {
  const HandlerLimits limits;
  Jobs jobs(limits);
  std::atomic<int> num_answered{0};
  constexpr int kRounds = 20;
  for (int i = 0; i < kRounds; ++i) {
    jobs.add_endless("attacker " + std::to_string(i));
    jobs.add("honest", [&] { ++num_answered; });
  }
  EXPECT_TRUE(reaches(num_answered, kRounds));
}

TEST(HandlerPool, LetsTheClientGoOnWhoseTurnWasLongestAgo) {
  HandlerLimits limits;
  limits.long_jobs = 1;
  Jobs jobs(limits);
  std::atomic<int> num_long{0};
  std::atomic<bool> first_ends{false};
  jobs.add("many", [&] {
    for (int i = 0; i < 4 * limits.long_checks; ++i) spend_steps(kStepsOfLook);
    ++num_long;
    while (!first_ends) spend_steps(kStepsOfLook);
  });
  ASSERT_TRUE(reaches(num_long, 1));
  std::vector<std::string> order;  // one writes after the other: a single long job continues at once
  const auto add = [&](const std::string& client) {
    const int num_waiting = static_cast<int>(jobs.pool->num_waiting_long());
    jobs.add(client, [&, client] {
      for (int i = 0; i < 4 * limits.long_checks; ++i) spend_steps(kStepsOfLook);
      order.push_back(client);
      ++num_long;
    });
    const Stopwatch clock;
    while (static_cast<int>(jobs.pool->num_waiting_long()) == num_waiting && clock.seconds() < 60)
      std::this_thread::yield();
  };
  for (const char* client : {"many", "many", "other"}) add(client);
  first_ends = true;
  ASSERT_TRUE(reaches(num_long, 4));
  jobs.pool->stop();
  EXPECT_THAT(order, ElementsAre("other", "many", "many"));
}

TEST(HandlerPool, TakesThePlaceOfTheClientThatHasMostWaiting) {
  HandlerLimits limits;
  limits.long_jobs = 1;
  limits.waiting_long_jobs = 2;
  limits.threads = 8;
  limits.waiting_jobs = 3;
  Jobs jobs(limits);
  std::atomic<bool> goes_on{false};
  for (int i = 0; i < limits.threads; ++i) {
    jobs.add("busy", [&] {
      while (!goes_on && !jobs.wants_end) std::this_thread::yield();
    });
    ASSERT_TRUE(reaches(jobs.num_begun, i + 1));
  }
  std::atomic<int> num_of_many{0}, num_of_other{0};
  for (int i = 0; i < 5; ++i) jobs.add("many", [&] { ++num_of_many; });
  EXPECT_EQ(jobs.num_refused, 2);
  jobs.add("other", [&] { ++num_of_other; });
  EXPECT_EQ(jobs.num_refused, 3);
  goes_on = true;
  EXPECT_TRUE(reaches(num_of_other, 1));
  EXPECT_TRUE(reaches(num_of_many, 2));
}

TEST(HandlerPool, EndsJobsThatWaitToGoOnWhereTheyAreNotWanted) {
  HandlerLimits limits;
  limits.long_jobs = 1;
  Jobs jobs(limits);
  jobs.add_endless("first");
  for (int i = 0; i < limits.waiting_long_jobs; ++i) jobs.add_endless("waits");
  ASSERT_TRUE(reaches(jobs.num_begun, 1 + limits.waiting_long_jobs));
  jobs.wants_end = true;
  EXPECT_TRUE(reaches(jobs.num_cancelled, 1 + limits.waiting_long_jobs));
  jobs.pool->stop();
  jobs.add("late", [] {});
  EXPECT_EQ(jobs.num_refused, 1);
}

TEST(HandlerPool, GoesOnWithAJobWhoseExceptionWasDropped) {
  HandlerLimits limits;
  limits.long_jobs = 1;
  limits.waiting_long_jobs = 0;
  std::atomic<int> num_long{0}, num_refusals{0};
  Jobs jobs(limits);
  jobs.add("first", [&] {
    for (int look = 0; look < limits.long_checks + 2; ++look) spend_steps(kStepsOfLook);
    ++num_long;
    for (;;) spend_steps(kStepsOfLook / 4);
  });
  ASSERT_TRUE(reaches(num_long, 1));
  jobs.add("drops", [&] {
    while (num_refusals < 3) {
      try {
        spend_steps(kStepsOfLook);
      } catch (const ApiError&) {
        ++num_refusals;
      }
    }
  });
  EXPECT_TRUE(reaches(num_refusals, 3));
}

}  // namespace
}  // namespace lacuna::handler_pool_test
