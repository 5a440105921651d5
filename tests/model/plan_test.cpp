#include "model/plan.h"

#include <gmock/gmock.h>

namespace lacuna::plan_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

StepPlan example() {
  StepPlan plan;
  plan.add_row(7, 0, 3);
  plan.add_row(8, 1, 4);
  plan.add_row(9, 0, 0);
  plan.groups = {{0, {0, 2}, {{0, 3}}, OwnRows::kCausal}, {1, {2, 3}, {}, OwnRows::kBidirectional}};
  plan.mixed = {{1, 0.25F}};
  plan.rules.resize(2);
  plan.rules[1].temperature = 0.5F;
  LogitRow logit;
  logit.row = 1;
  logit.unconditional_row = 2;
  logit.guidance = 1.5F;
  logit.rule = 1;
  logit.noise = RngStream(3, 4);
  plan.logits.push_back(logit);
  logit.unconditional_row = -1;
  plan.logits.push_back(logit);
  return plan;
}

TEST(StepPlan, AppendedToAnEmptyPlanIsTheSame) {
  StepPlan plan;
  plan.append(example(), 0);
  EXPECT_EQ(plan, example());
}

TEST(StepPlan, AppendShiftsRowsSequencesAndRulesButNotPositionsOrCells) {
  StepPlan plan = example();
  plan.append(example(), 2);
  EXPECT_EQ(plan.num_rows(), 6);
  EXPECT_THAT(plan.tokens, ElementsAre(7, 8, 9, 7, 8, 9));
  EXPECT_THAT(plan.positions, ElementsAre(0, 1, 0, 0, 1, 0));
  EXPECT_THAT(plan.cells, ElementsAre(3, 4, 0, 3, 4, 0));
  ASSERT_EQ(plan.groups.size(), 4U);
  EXPECT_EQ(plan.groups[2], (RowGroup{2, {3, 5}, {{0, 3}}, OwnRows::kCausal}));
  EXPECT_EQ(plan.groups[3], (RowGroup{3, {5, 6}, {}, OwnRows::kBidirectional}));
  EXPECT_THAT(plan.mixed, ElementsAre(MixedRow{1, 0.25F}, MixedRow{4, 0.25F}));
  ASSERT_EQ(plan.logits.size(), 4U);
  LogitRow expected = example().logits[0];
  expected.row = 4;
  expected.unconditional_row = 5;
  expected.rule = 3;
  EXPECT_EQ(plan.logits[2], expected);
  EXPECT_EQ(plan.logits[3].unconditional_row, -1);
  EXPECT_EQ(plan.rules[3].temperature, 0.5F);
}

TEST(StepPlan, ClearLeavesNothing) {
  StepPlan plan = example();
  plan.clear();
  EXPECT_EQ(plan, StepPlan());
  EXPECT_THAT(plan.tokens, IsEmpty());
}

}  // namespace
}  // namespace lacuna::plan_test
