// Figures of sparse attention by hand.
#include "instruments/recall_figures.h"

#include <gmock/gmock.h>

#include <cmath>
#include <vector>

namespace lacuna::recall_figures_test {
namespace {

using testing::ElementsAre;

// Two rows of one head, three cells before the block and one of its own.

HeadAttention two_rows(const std::vector<float>& weights) {
  return {2, 1, 3, 4, weights};
}

const std::vector<float>& disagreeing() {
  static const std::vector<float> weights = {0.5F, 0.25F, 0.0F, 0.25F, 0.0F, 0.125F, 0.375F, 0.5F};
  return weights;
}

TEST(BlockCells, AreTheHeaviestOfAllRowsTogether) {
  const HeadAttention attention = two_rows(disagreeing());
  EXPECT_THAT(heaviest_of_block(attention, 1), ElementsAre(0));
  EXPECT_THAT(heaviest_of_block(attention, 2), ElementsAre(0, 1));  // 0.375 twice: the lower cell
  EXPECT_THAT(heaviest_of_rows(attention, 1), ElementsAre(CellSet{0}, CellSet{2}));
  EXPECT_THAT(heaviest_of_rows(attention, 2), ElementsAre(CellSet{0, 1}, CellSet{1, 2}));
}

TEST(BlockCells, AddUpTheHeadsOfARow) {
  const std::vector<float> weights = {0.5F, 0.0F, 0.25F, 0.25F, 0.0F, 0.5F, 0.375F, 0.125F};
  const HeadAttention one_row{1, 2, 3, 4, weights};
  EXPECT_THAT(heaviest_of_rows(one_row, 1), ElementsAre(CellSet{2}));
}

TEST(BlockCells, AreCountedWhereTwoSetsAgree) {
  EXPECT_EQ(recall({1, 4, 6}, {1, 4, 6}, 3), 1);
  EXPECT_EQ(recall({1, 4, 6, 8}, {0, 4, 7, 8}, 4), 0.5);
  EXPECT_EQ(recall({1, 2}, {3, 4}, 2), 0);
}

TEST(UnionRatio, IsOneWhereAllRowsAgree) {
  const std::vector<CellSet> same(5, {2, 3, 9});
  EXPECT_EQ(union_ratio(same, 3), 1);
  EXPECT_EQ(union_ratio(std::vector<CellSet>{{0, 1}, {1, 2}, {4, 5}}, 2), 2.5);
}

TEST(TokenAccuracy, IsTheShareOfEachRowsOwnCells) {
  const std::vector<CellSet> of_rows = {{0, 1}, {1, 2}};
  EXPECT_EQ(token_accuracy({0, 1}, of_rows, 2), 0.75);
  EXPECT_EQ(token_accuracy({0, 1, 2}, of_rows, 2), 1);
}

TEST(TokenAccuracy, ComparesEachRowWithItsOwnSetWhereRowsHaveTheirOwn) {
  const std::vector<CellSet> of_rows = {{0, 1}, {1, 2}};
  const std::vector<CellSet> chosen = {{0, 1}, {2, 3}};
  EXPECT_EQ(token_accuracy(of_rows, of_rows, 2), 1);
  EXPECT_EQ(token_accuracy(chosen, of_rows, 2), 0.75);
  const std::vector<CellSet> exchanged = {{2, 3}, {0, 1}};
  EXPECT_EQ(token_accuracy(exchanged, of_rows, 2), 0.25);
}

TEST(CoveredMass, IsOfThePrefixAlone) {
  const HeadAttention attention = two_rows(disagreeing());
  EXPECT_EQ(prefix_share(attention), 0.625);
  EXPECT_EQ(covered_mass(attention, {0, 1, 2}), 1);
  EXPECT_EQ(covered_mass(attention, {1, 2}), (1.0 / 3 + 1) / 2);
}

TEST(CoveredMass, IsAllWhereTheCellLeftOutHasNone) {
  const std::vector<float> weights = {0.5F, 0.0F, 0.25F, 0.25F, 0.25F, 0.0F, 0.25F, 0.5F};
  const HeadAttention attention = two_rows(weights);
  EXPECT_EQ(covered_mass(attention, heaviest_of_block(attention, 2)), 1);
  const std::vector<float> on_the_block = {0, 0, 0, 1, 0, 0, 0, 1};
  EXPECT_EQ(covered_mass(two_rows(on_the_block), {0}), 1);
}

TEST(CoveredMass, IsOfEachRowsOwnCellsWhereRowsHaveTheirOwn) {
  const HeadAttention attention = two_rows(disagreeing());
  const std::vector<CellSet> own = {{0}, {2}};
  EXPECT_EQ(covered_mass(attention, own), (0.5 / 0.75 + 0.375 / 0.5) / 2);
}

TEST(OutputErrors, AreThoseOfTheWeightsThatAreLeft) {
  const HeadAttention attention = two_rows(disagreeing());
  const std::vector<float> values = {4, 8, 0, -4};
  const AttentionOutputs outputs(attention, {values.data(), 4, 1});
  EXPECT_EQ(outputs.error({0, 1, 2}).relative(), 0);
  // Exact: 3 and -1. Without cell 1: 2 - 1 over 3/4, and -2 over 7/8.
  const OutputError error = outputs.error({0, 2});
  EXPECT_NEAR(error.exact, 10, 1e-12);
  EXPECT_NEAR(error.difference, std::pow(4.0 / 3 - 3, 2) + std::pow(-16.0 / 7 + 1, 2), 1e-12);
  EXPECT_NEAR(error.relative(), std::sqrt(error.difference / 10), 1e-12);
  EXPECT_EQ(OutputError().relative(), 0);
}

TEST(OutputErrors, AreOfEachRowsOwnCellsWhereRowsHaveTheirOwn) {
  const HeadAttention attention = two_rows(disagreeing());
  const std::vector<float> values = {4, 8, 0, -4};
  const AttentionOutputs outputs(attention, {values.data(), 4, 1});
  // Exact: 3 and -1. The first row without cell 1: 1 over 3/4; the second without cell 2: -1 over 5/8.
  const std::vector<CellSet> own = {{0, 2}, {0, 1}};
  EXPECT_NEAR(outputs.error(own).difference, std::pow(4.0 / 3 - 3, 2) + std::pow(-8.0 / 5 + 1, 2), 1e-12);
  const std::vector<CellSet> whole = {{0, 1, 2}, {0, 1, 2}};
  EXPECT_EQ(outputs.error(whole).relative(), 0);
}

TEST(StateGaps, OfABlockLeaveOutWhatRowsCancel) {
  const std::vector<float> first = {3, 4, 3, -4};
  const std::vector<float> now = {3, 6, 3, -6};
  const StateGap gap = state_gap({first.data(), 2, 2}, {now.data(), 2, 2});
  EXPECT_DOUBLE_EQ(gap.row, 2);
  EXPECT_DOUBLE_EQ(gap.row_relative, 2.0 / 5);
  EXPECT_DOUBLE_EQ(gap.block, 0);
  EXPECT_DOUBLE_EQ(gap.block_relative, 0);
  const std::vector<float> shifted = {4, 4, 4, -4};
  EXPECT_DOUBLE_EQ(state_gap({first.data(), 2, 2}, {shifted.data(), 2, 2}).block_relative, 1.0 / 3);
}

TEST(PredictionDivergence, IsThatOfTheLaterPredictionsFromTheFirst) {
  // First: probabilities 1/2 and 1/2; now: 3/4 and 1/4. The other direction would give 0.1438.
  std::vector<float> first = {0, 0};
  std::vector<float> now = {std::log(3.0F), 0};
  const double expected = 0.75 * std::log(1.5) + 0.25 * std::log(0.5);
  EXPECT_NEAR(prediction_divergence(first, now, -1), expected, 1e-6);
  EXPECT_EQ(prediction_divergence(now, now, -1), 0);
}

TEST(PredictionDivergence, LeavesOutTheMaskToken) {
  std::vector<float> first = {0, 7, 0};
  std::vector<float> now = {std::log(3.0F), -2, 0};
  EXPECT_NEAR(prediction_divergence(first, now, 1), 0.75 * std::log(1.5) + 0.25 * std::log(0.5), 1e-6);
}

}  // namespace
}  // namespace lacuna::recall_figures_test
