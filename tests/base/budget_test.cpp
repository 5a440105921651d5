#include "base/budget.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace lacuna::budget_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr size_t kMany = 1 << 20;

TEST(Budget, RefusesWorkBeyondItsStepsAndNamesThePart) {
  const Budget budget("schema", {.steps = 2'000'000});
  spend_steps(2'000'000);
  EXPECT_EQ(budget.steps_spent(), 2'000'000);
  EXPECT_THAT([] { spend_steps(1); },
              ThrowsMessage<BudgetSpent>(HasSubstr("schema: reading it takes more than 2 million steps")));
}

TEST(Budget, RefusesMemoryBeyondItsBytes) {
  const Budget budget("tools", {.bytes = 3 << 20});
  spend_bytes(3 << 20);
  EXPECT_THAT([] { spend_bytes(1); },
              ThrowsMessage<BudgetSpent>(HasSubstr("tools: reading it takes more than 3 MiB")));
}

TEST(Budget, GivesBackMemoryThatWasFreed) {
  const Budget budget("schema", {.bytes = 100});
  const BytesMark mark;
  spend_bytes(100);
  mark.give_back();
  EXPECT_EQ(budget.bytes_spent(), 0);
  EXPECT_NO_THROW(spend_bytes(100));
}

TEST(Budget, ChargesNothingWhereThereIsNone) {
  EXPECT_EQ(Budget::current(), nullptr);
  EXPECT_NO_THROW(spend_steps(kMany));
  EXPECT_NO_THROW(spend_bytes(kMany));
}

TEST(Budget, IsCancelledByItsFlagOrDeadline) {
  std::atomic<bool> stop{false};
  const Budget budget("body", {.stop = &stop});
  EXPECT_NO_THROW(spend_steps(kMany));
  stop = true;
  EXPECT_THROW(spend_steps(kMany), WorkCancelled);
  const Budget late("body", {.deadline = std::chrono::steady_clock::now() - std::chrono::seconds(1)});
  stop = false;
  try {
    spend_steps(kMany);
    FAIL() << "the deadline is over";
  } catch (const WorkCancelled& cancelled) {
    EXPECT_EQ(cancelled.reason(), WorkCancelled::Reason::kTooLate);
  }
}

TEST(Budget, WithinAnotherOneHasItsOwnLimitsAndObeysTheFlagsOfBoth) {
  std::atomic<bool> stop{false};
  const Budget outer("body", {.stop = &stop});
  {
    const Budget inner("schema", {.steps = 100});
    EXPECT_THROW(spend_steps(101), BudgetSpent);
  }
  EXPECT_EQ(Budget::current(), &outer);
  EXPECT_EQ(outer.steps_spent(), 101);
  const Budget inner("schema", {});
  stop = true;
  EXPECT_THROW(spend_steps(kMany), WorkCancelled);
}

TEST(Budget, IsOfOneThread) {
  const Budget budget("schema", {.steps = 1});
  std::thread([] { EXPECT_EQ(Budget::current(), nullptr); }).join();
}

}  // namespace
}  // namespace lacuna::budget_test
