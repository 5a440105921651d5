#include "decode/sparse_policy.h"

#include <gmock/gmock.h>

namespace lacuna::sparse_policy_test {
namespace {

using Choice = SparseAttention::Choice;

/// Sparse attention of the steps of some blocks; block b has 8 cells more before it than the one before.
std::vector<SparseAttention> run(SparseSchedule& schedule, int32_t first_prefix, int32_t blocks,
                                 int32_t steps) {
  std::vector<SparseAttention> all;
  for (int32_t block = 0; block < blocks; ++block) {
    for (int32_t step = 0; step < steps; ++step) {
      all.push_back(schedule.denoise(first_prefix + 8 * block, step));
      schedule.advance(all.back());
    }
  }
  return all;
}

std::vector<Choice> choices(const std::vector<SparseAttention>& steps) {
  std::vector<Choice> result;
  for (const SparseAttention& step : steps) result.push_back(step.choice);
  return result;
}

constexpr Choice kAll = Choice::kAll;
constexpr Choice kRemember = Choice::kAllAndRemember;
constexpr Choice kRemembered = Choice::kRemembered;
constexpr Choice kPages = Choice::kBestPages;

TEST(SparseSchedule, OfMageRemembersInTheFirstStepOfEachBlockBeyondTheBudget) {
  SparseSchedule schedule(Mage{20}, 12, 0);
  const std::vector<SparseAttention> steps = run(schedule, 16, 3, 3);
  EXPECT_THAT(choices(steps), testing::ElementsAre(kAll, kAll, kAll, kRemember, kRemembered, kRemembered,
                                                   kRemember, kRemembered, kRemembered));
  EXPECT_EQ(steps[4].among, (IndexRange{0, 24}));
  EXPECT_EQ(steps[7].among, (IndexRange{0, 32}));
  EXPECT_EQ(schedule.commit(32).choice, kRemembered);
}

TEST(SparseSchedule, OfQuestChoosesInEveryStep) {
  SparseSchedule schedule(Quest{20, 4}, 12, 0);
  const std::vector<SparseAttention> steps = run(schedule, 16, 2, 2);
  EXPECT_THAT(choices(steps), testing::ElementsAre(kAll, kAll, kPages, kPages));
  EXPECT_EQ(steps[2].page_size, 4);
  EXPECT_EQ(schedule.commit(16).choice, kAll);
}

TEST(SparseSchedule, OfSparseDIsExactForItsShareAndNeverChoosesAgain) {
  SparseSchedule schedule(SparseD{10, 0.5}, 8, 0);
  const std::vector<SparseAttention> steps = run(schedule, 16, 2, 4);
  EXPECT_THAT(choices(steps),
              testing::ElementsAre(kAll, kAll, kAll, kAll, kRemember, kRemembered, kRemembered, kRemembered));
  EXPECT_EQ(schedule.denoise(80, 0).among, (IndexRange{0, 24})) << "later cells are not chosen among";
  SparseSchedule short_prefix(SparseD{30, 0}, 8, 0);
  EXPECT_THAT(choices(run(short_prefix, 16, 3, 2)),
              testing::ElementsAre(kAll, kAll, kAll, kAll, kRemember, kRemembered))
      << "waits for a prefix beyond the budget";
}

TEST(SparseSchedule, IsExactAgainAfterSoManyStepsOfABlock) {
  SparseSchedule schedule(Mage{4}, 12, 2);
  EXPECT_THAT(choices(run(schedule, 16, 1, 4)), testing::ElementsAre(kRemember, kRemembered, kAll, kAll));
}

TEST(SparseSchedule, OfExactAttentionIsExact) {
  SparseSchedule schedule(ExactAttention{}, 12, 0);
  EXPECT_THAT(choices(run(schedule, 1000, 1, 2)), testing::ElementsAre(kAll, kAll));
  EXPECT_EQ(schedule.commit(1000), SparseAttention());
}

TEST(SparseSchedule, TellsThePlanHowManyLayersAreDense) {
  for (const SparsePolicy& policy :
       {SparsePolicy(Mage{4, 1}), SparsePolicy(Quest{20, 4, 1}), SparsePolicy(SparseD{4, 0, 1})}) {
    SparseSchedule schedule(policy, 12, 0);
    for (const SparseAttention& attention : run(schedule, 32, 1, 3)) EXPECT_EQ(attention.dense_layers, 1);
    EXPECT_EQ(schedule.commit(32).dense_layers, 1);
  }
}

}  // namespace
}  // namespace lacuna::sparse_policy_test
