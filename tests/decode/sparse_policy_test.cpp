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
      all.push_back(schedule.denoise(first_prefix + 8 * block, step, 8));
      schedule.advance(all.back(), 1);
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
constexpr Choice kKeep = Choice::kAllAndKeep;
constexpr Choice kKept = Choice::kKept;

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
  EXPECT_EQ(schedule.denoise(80, 0, 8).among, (IndexRange{0, 24})) << "later cells are not chosen among";
  SparseSchedule short_prefix(SparseD{30, 0}, 8, 0);
  EXPECT_THAT(choices(run(short_prefix, 16, 3, 2)),
              testing::ElementsAre(kAll, kAll, kAll, kAll, kRemember, kRemembered))
      << "waits for a prefix beyond the budget";
}

TEST(SparseSchedule, OfFlashBlockReusesUntilSoManyTokensAreWritten) {
  SparseSchedule schedule(FlashBlock{3}, 12, 0);
  const std::vector<SparseAttention> steps = run(schedule, 0, 2, 5);
  EXPECT_THAT(std::vector(steps.begin(), steps.begin() + 5), testing::Each(SparseAttention())) << "no prefix";
  EXPECT_THAT(choices({steps.begin() + 5, steps.end()}),
              testing::ElementsAre(kKeep, kKept, kKept, kKeep, kKept));
  EXPECT_EQ(steps[6].among, (IndexRange{0, 8}));
  EXPECT_EQ(steps[6].num_chosen(), 0);
  EXPECT_EQ(steps[6].dense_layers, 0);
  SparseSchedule every_step(FlashBlock{1}, 12, 0);
  EXPECT_THAT(choices(run(every_step, 8, 1, 4)), testing::Each(kKeep));
  SparseSchedule several(FlashBlock{4}, 12, 0);
  several.advance(several.denoise(8, 0, 8), 3);
  EXPECT_EQ(several.denoise(8, 1, 8).choice, kKept);
  several.advance(several.denoise(8, 1, 8), 2);
  EXPECT_EQ(several.denoise(8, 2, 8).choice, kKeep);
}

TEST(SparseSchedule, OfLosaReusesBehindTheFirstStepOfABlockBeyondTheBudget) {
  SparseSchedule schedule(Losa{20, 4}, 12, 0);
  const std::vector<SparseAttention> steps = run(schedule, 16, 2, 3);
  EXPECT_THAT(choices(steps), testing::ElementsAre(kAll, kAll, kAll, kKeep, kKept, kKept));
  EXPECT_EQ(steps[4].active_rows, 3) << "0.3125 of 8, rounded up";
  EXPECT_EQ(steps[4].num_chosen(), 20);
  EXPECT_EQ(schedule.denoise(24, 1, 2).active_rows, 1);
  EXPECT_EQ(schedule.commit(24), SparseAttention());
  EXPECT_EQ(SparseSchedule(Losa{20, 4, 1}, 12, 0).denoise(24, 1, 8).active_rows, 8);
}

TEST(SparseSchedule, IsExactAgainAfterSoManyStepsOfABlock) {
  SparseSchedule schedule(Mage{4}, 12, 2);
  EXPECT_THAT(choices(run(schedule, 16, 1, 4)), testing::ElementsAre(kRemember, kRemembered, kAll, kAll));
  SparseSchedule kept(Losa{4, 4}, 12, 2);
  EXPECT_THAT(choices(run(kept, 16, 1, 4)), testing::ElementsAre(kKeep, kKept, kAll, kAll));
}

TEST(SparseSchedule, OfExactAttentionIsExact) {
  SparseSchedule schedule(ExactAttention{}, 12, 0);
  EXPECT_THAT(choices(run(schedule, 1000, 1, 2)), testing::ElementsAre(kAll, kAll));
  EXPECT_EQ(schedule.commit(1000), SparseAttention());
}

TEST(SparseSchedule, TellsThePlanHowManyLayersAreDense) {
  for (const SparsePolicy& policy :
       {SparsePolicy(Mage{4, 1}), SparsePolicy(Quest{20, 4, 1}), SparsePolicy(SparseD{4, 0, 1}),
        SparsePolicy(FlashBlock{2, 1}), SparsePolicy(Losa{4, 4, 1, 1})}) {
    SparseSchedule schedule(policy, 12, 0);
    for (const SparseAttention& attention : run(schedule, 32, 1, 3)) EXPECT_EQ(attention.dense_layers, 1);
    if (keeps_attention(policy)) continue;
    EXPECT_EQ(schedule.commit(32).dense_layers, 1);
  }
}

}  // namespace
}  // namespace lacuna::sparse_policy_test
