#include "model/sparse_attention.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/rng.h"
#include "model/plan.h"

namespace lacuna::sparse_attention_test {
namespace {

using testing::ElementsAre;

TEST(HeaviestCells, AreChosenAmongTheRangeAloneAndTiesGoToTheLowest) {
  std::vector<float> mass(96, 0);  // tiles 0 and 2, 3: cells 0 to 31 and 64 to 127
  const std::vector<IndexRange> runs = {{0, 1}, {2, 4}};
  mass[5] = 3;    // cell 5
  mass[33] = 9;   // cell 65
  mass[40] = 3;   // cell 72
  mass[95] = 50;  // cell 127, beyond the range
  EXPECT_THAT(heaviest_cells(mass, runs, {0, 120}, 2), ElementsAre(5, 65));
  EXPECT_THAT(heaviest_cells(mass, runs, {0, 120}, 3), ElementsAre(5, 65, 72));
  EXPECT_THAT(heaviest_cells(mass, runs, {0, 120}, 5), ElementsAre(0, 1, 5, 65, 72));
  EXPECT_EQ(heaviest_cells(mass, runs, {0, 120}, 500).size(), 120U);
}

TEST(PageScores, AreTheMeanOfQuestsBoundOverTheQueries) {
  constexpr int64_t kDim = 5;
  std::vector<float> queries, largest, smallest;
  for (uint64_t i = 0; i < 7 * kDim; ++i)
    queries.push_back(static_cast<float>(RngStream(1).uniform(i) - 0.5));
  for (uint64_t i = 0; i < 3 * kDim; ++i) {
    smallest.push_back(static_cast<float>(RngStream(2).uniform(i) - 0.7));
    largest.push_back(smallest.back() + static_cast<float>(RngStream(3).uniform(i)));
  }
  const std::vector<float> scores = page_scores(split_mean({queries.data(), 7, kDim}), largest, smallest);
  ASSERT_EQ(scores.size(), 3U);
  for (size_t page = 0; page < 3; ++page) {
    double sum = 0;
    for (size_t q = 0; q < 7; ++q) {
      for (size_t c = 0; c < kDim; ++c) {
        const float query = queries[q * kDim + c];
        sum += std::max(query * largest[page * kDim + c], query * smallest[page * kDim + c]);
      }
    }
    EXPECT_NEAR(scores[page], sum / 7, 1e-6);
  }
}

TEST(BestPages, AlwaysHoldTheLastAndMayEndWithAShortOne) {
  const std::vector<float> scores = {1, 5, 5, 0};
  EXPECT_THAT(cells_of_best_pages(scores, 2, 3, 11), ElementsAre(3, 4, 5, 9, 10));
  EXPECT_THAT(cells_of_best_pages(scores, 1, 3, 12), ElementsAre(9, 10, 11));
  EXPECT_EQ(cells_of_best_pages(scores, 9, 3, 12).size(), 12U);
}

TEST(BestScoredCells, TakeTheBestOfTheirNeighboursAndLeaveOutTheBlock) {
  SparseAttention sparse{SparseAttention::Choice::kAllAndRememberScored, {0, 8}, 3};
  sparse.except = {2, 4};
  EXPECT_EQ(sparse.num_candidates(), 6);
  const std::vector<float> scores = {-9, 2, 7, -1, 3, 5};  // of cells 0, 1, 4, 5, 6, 7
  EXPECT_THAT(best_scored_cells(scores, sparse), ElementsAre(1, 4, 5)) << "cells 1 and 4 are neighbours";
  sparse.budget = 5;
  EXPECT_THAT(best_scored_cells(scores, sparse), ElementsAre(1, 4, 5, 6, 7));
  sparse.budget = 4;
  EXPECT_THAT(best_scored_cells(scores, sparse), ElementsAre(1, 4, 5, 6)) << "ties go to the lowest";
  sparse.pool = 1;
  EXPECT_THAT(best_scored_cells(scores, sparse), ElementsAre(1, 4, 6, 7));
  sparse.pool = 99;
  EXPECT_THAT(best_scored_cells(scores, sparse), ElementsAre(0, 1, 4, 5)) << "all have one score";
}

TEST(HeadMeans, AddUpTheHeadsOfEachKvHeadAndAverageTheRows) {
  // Three rows of four heads of two numbers; two K/V heads.
  std::vector<float> queries(24);
  for (size_t i = 0; i < queries.size(); ++i) queries[i] = static_cast<float>(i);
  const auto means = head_means({queries.data(), 3, 8}, {1, 3}, 2, 2);
  EXPECT_THAT(means, ElementsAre(12 + 14, 13 + 15, 16 + 18, 17 + 19));
}

TEST(LargestIndices, AscendAndTiesGoToTheLowest) {
  const std::vector<float> values = {1, 5, 2, 5, 5};
  EXPECT_THAT(largest_indices(values, 2), ElementsAre(1, 3));
  EXPECT_THAT(largest_indices(values, 4), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(largest_indices(values, 9), ElementsAre(0, 1, 2, 3, 4));
}

TEST(LargestIndices, TakeNaNForInfinity) {
  const std::vector<float> values = {1, std::nanf(""), 3, std::nanf("")};
  EXPECT_THAT(largest_indices(values, 1), ElementsAre(1));
  EXPECT_THAT(largest_indices(values, 3), ElementsAre(1, 2, 3));
}

TEST(MeanSquareChange, IsTheMeanOfTheSquares) {
  EXPECT_EQ(mean_square_change(std::vector<float>{1, 2, 3, 4}, std::vector<float>{1, 4, 0, 4}), 13.0F / 4);
}

TEST(MergeParts, WeighsBothPartsByTheirSumsWhateverTheirLargestScores) {
  // Values [2], largest score, sum of exp(score - largest).
  const std::vector<float> kept = {2, 4, 3, 2}, own = {1, 0, 5, 1};
  std::vector<float> out(2);
  const float scale = std::exp(-2.0F);
  merge_parts(kept, own, true, out);
  EXPECT_FLOAT_EQ(out[0], (2 * scale + 1) / (2 * scale + 1));
  EXPECT_FLOAT_EQ(out[1], 4 * scale / (2 * scale + 1));
  merge_parts(own, kept, true, out);
  EXPECT_FLOAT_EQ(out[1], 4 * scale / (2 * scale + 1)) << "in either order";
  merge_parts(kept, own, false, out);
  EXPECT_FLOAT_EQ(out[0], 1 / (2 * scale + 1)) << "the sum counts, the values do not";
  EXPECT_EQ(out[1], 0);
  const std::vector<float> far = {3, 3, 1000, 1};
  merge_parts(far, own, true, out);
  EXPECT_THAT(out, ElementsAre(3, 3));
}

TEST(SparseAttention, CountsTheCellsThatEachHeadAttendsTo) {
  using Choice = SparseAttention::Choice;
  EXPECT_EQ((SparseAttention{Choice::kRemembered, {0, 100}, 30, 16}.num_chosen()), 30);
  EXPECT_EQ((SparseAttention{Choice::kRemembered, {0, 20}, 30, 16}.num_chosen()), 20);
  EXPECT_EQ((SparseAttention{Choice::kBestPages, {0, 100}, 40, 16}.num_chosen()), 16 + 4);
  EXPECT_EQ((SparseAttention{Choice::kBestPages, {0, 96}, 40, 16}.num_chosen()), 32);
  SparseAttention kept{Choice::kKept, {0, 100}, 40, 16};
  EXPECT_EQ(kept.num_chosen(), 0);
  kept.active_rows = 3;
  EXPECT_EQ(kept.num_chosen(), 16 + 4);
}

}  // namespace
}  // namespace lacuna::sparse_attention_test
