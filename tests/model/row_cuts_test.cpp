#include "model/row_cuts.h"

#include <gmock/gmock.h>

#include <vector>

#include "model/tiny_models.h"

namespace lacuna::row_cuts_test {
namespace {

using testing::ElementsAre;

/// A group of each size, each of a sequence of its own.
StepPlan plan_of(const std::vector<int32_t>& sizes) {
  StepPlan plan;
  for (const int32_t size : sizes) {
    const int32_t begin = plan.num_rows();
    for (int32_t i = 0; i < size; ++i) plan.add_row(0, i, i);
    plan.groups.push_back({static_cast<int32_t>(plan.groups.size()), {begin, begin + size}, {}});
  }
  return plan;
}

TEST(RowCuts, GivesEachRankAsManyRowsAsTheOthers) {
  const ModelConfig config = tiny_configs()[0];
  EXPECT_THAT(rows_of_ranks(config, plan_of({7, 3}), 3),
              ElementsAre(IndexRange{0, 4}, IndexRange{4, 7}, IndexRange{7, 10}));
  EXPECT_THAT(rows_of_ranks(config, plan_of({1}), 3),
              ElementsAre(IndexRange{0, 1}, IndexRange{1, 1}, IndexRange{1, 1}));
}

TEST(RowCuts, KeepsGroupsTogetherThatChooseTheirCells) {
  const ModelConfig config = tiny_configs()[0];
  for (const auto choice : {SparseAttention::Choice::kAllAndRemember, SparseAttention::Choice::kBestPages}) {
    StepPlan plan = plan_of({8, 6, 6});
    plan.groups[1].sparse.choice = choice;
    EXPECT_THAT(rows_of_ranks(config, plan, 2), ElementsAre(IndexRange{0, 8}, IndexRange{8, 20}));
    plan.groups[0].sparse.choice = plan.groups[2].sparse.choice = choice;
    EXPECT_THAT(rows_of_ranks(config, plan, 4),
                ElementsAre(IndexRange{0, 8}, IndexRange{8, 8}, IndexRange{8, 14}, IndexRange{14, 20}));
  }
  StepPlan plan = plan_of({20});
  plan.groups[0].sparse.choice = SparseAttention::Choice::kRemembered;
  EXPECT_THAT(rows_of_ranks(config, plan, 2), ElementsAre(IndexRange{0, 10}, IndexRange{10, 20}));
}

TEST(RowCuts, KeepsRowsTogetherThatShareAWindowsExperts) {
  ModelConfig config = tiny_configs()[0];
  config.moe.window = 8;
  EXPECT_THAT(rows_of_ranks(config, plan_of({20}), 2), ElementsAre(IndexRange{0, 8}, IndexRange{8, 20}));
  EXPECT_THAT(rows_of_ranks(config, plan_of({20}), 3),
              ElementsAre(IndexRange{0, 8}, IndexRange{8, 16}, IndexRange{16, 20}));
}

TEST(RowCuts, CutsPiecesBetweenSequences) {
  EXPECT_THAT(pieces_for_stages(plan_of({70, 70, 70}), 2),
              ElementsAre(IndexRange{0, 70}, IndexRange{70, 140}, IndexRange{140, 210}));
  EXPECT_THAT(pieces_for_stages(plan_of({30, 30, 30, 30, 30, 30}), 2),
              ElementsAre(IndexRange{0, 90}, IndexRange{90, 180}));
  EXPECT_THAT(pieces_for_stages(plan_of({30, 30, 30, 30, 30}), 2), ElementsAre(IndexRange{0, 150}));
  EXPECT_THAT(pieces_for_stages(plan_of({500}), 2), ElementsAre(IndexRange{0, 500}));
  EXPECT_THAT(pieces_for_stages(plan_of(std::vector<int32_t>(80, 100)), 2), testing::SizeIs(8));
}

TEST(RowCuts, KeepsTheGroupsOfASequenceInOnePiece) {
  StepPlan plan = plan_of({70, 70, 70, 70});
  plan.groups[2].sequence = 1;
  EXPECT_THAT(pieces_for_stages(plan, 2),
              ElementsAre(IndexRange{0, 70}, IndexRange{70, 210}, IndexRange{210, 280}));
  plan.groups[3].sequence = 0;
  EXPECT_THAT(pieces_for_stages(plan, 2), ElementsAre(IndexRange{0, 280}));
}

}  // namespace
}  // namespace lacuna::row_cuts_test
