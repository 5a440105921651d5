#include "backend/cuda/seen_cells.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <tuple>

#include "base/rng.h"
#include "planned_by_cell.h"

namespace lacuna::cuda::seen_cells_test {
namespace {

using ::testing::ElementsAre;
using ::testing::FieldsAre;

/// Rows of one group with the positions and cells from `first` on.
StepPlan plan_of(int32_t first, int32_t count, OwnRows own_rows, std::vector<IndexRange> visible) {
  StepPlan plan;
  plan.tokens.resize(static_cast<size_t>(count));
  plan.positions.resize(plan.tokens.size());
  std::iota(plan.positions.begin(), plan.positions.end(), first);
  plan.cells = plan.positions;
  plan.groups.push_back({.rows = {0, count}, .visible = std::move(visible), .own_rows = own_rows});
  return plan;
}

TEST(SeenCells, JoinsWhatAllRowsSee) {
  const StepPlan plan = plan_of(70, 8, OwnRows::kBidirectional, {{40, 70}, {0, 30}, {20, 35}});
  EXPECT_THAT(
      seen_cells(plan, plan.groups[0], 0, 100),
      ElementsAre(FieldsAre(0, 35, 0, kNoRow), FieldsAre(40, 78, 0, kNoRow), FieldsAre(100, 101, 0, kNoRow)));
}

TEST(SeenCells, ListCausalRowsOneByOne) {
  const StepPlan plan = plan_of(9, 3, OwnRows::kCausal, {{0, 9}});
  EXPECT_THAT(
      seen_cells(plan, plan.groups[0], 0, -1),
      ElementsAre(FieldsAre(0, 10, 0, kNoRow), FieldsAre(10, 11, 1, kNoRow), FieldsAre(11, 12, 2, kNoRow)));
}

TEST(SeenCells, EndWithTheWindowsOfTheRows) {
  const StepPlan plan = plan_of(9, 3, OwnRows::kCausal, {{0, 9}});
  EXPECT_THAT(seen_cells(plan, plan.groups[0], 8, -1),
              ElementsAre(FieldsAre(2, 3, 0, 1), FieldsAre(3, 4, 0, 2), FieldsAre(4, 10, 0, kNoRow),
                          FieldsAre(10, 11, 1, kNoRow), FieldsAre(11, 12, 2, kNoRow)));
}

template <typename Values>
std::vector<int32_t> numbers(const Values& values) {
  std::vector<int32_t> all(values.size() * sizeof(values[0]) / sizeof(int32_t));
  if (!all.empty()) std::memcpy(all.data(), values.data(), all.size() * sizeof(int32_t));
  return all;
}

void expect_same(const AttentionPlan& got, const AttentionPlan& expected, uint64_t seed) {
  EXPECT_EQ(numbers(got.tasks), numbers(expected.tasks)) << seed;
  EXPECT_EQ(numbers(got.merges), numbers(expected.merges)) << seed;
  EXPECT_EQ(numbers(got.runs), numbers(expected.runs)) << seed;
  EXPECT_EQ(got.masks, expected.masks) << seed;
  for (size_t i = 0; i < got.mask_ends.size(); ++i) {
    if (got.masks[i] == kNoRow) continue;
    ASSERT_EQ(got.mask_ends[i], expected.mask_ends[i]) << seed;
  }
}

TEST(SeenCells, GiveThePlanThatIsMadeCellByCell) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const RngStream random(seed);
    uint64_t drawn = 0;
    const auto below = [&](uint32_t limit) { return static_cast<int32_t>(random.below(drawn++, limit)); };
    const int64_t window = below(3) == 0 ? 1 + below(700) : 0;
    std::vector<GroupCells> by_range;
    std::vector<CellGroup> by_cell;
    int32_t first_row = 0;
    for (int32_t i = below(3); i >= 0; --i) {
      const int32_t first = below(4) == 0 ? below(20000) : below(1500);
      const int32_t step = window == 0 ? 1 + below(3) : 1;
      const auto own_rows = std::array{OwnRows::kNone, OwnRows::kBidirectional,
                                       OwnRows::kCausal}[static_cast<size_t>(below(3))];
      StepPlan plan = plan_of(first, 1 + below(100), own_rows, {});
      for (size_t row = 0; row < plan.cells.size(); ++row)
        plan.cells[row] += static_cast<int32_t>(row) * (step - 1);
      for (int32_t at = 0; at < first && below(8) != 0;) {  // with holes, and some that touch
        const int32_t end = std::min(first, at + 1 + below(static_cast<uint32_t>(first)));
        plan.groups[0].visible.push_back({at, end});
        at = end + (below(2) == 0 ? below(90) : 0);
      }
      if (below(3) == 0) std::reverse(plan.groups[0].visible.begin(), plan.groups[0].visible.end());
      const int32_t sink = below(3) == 0 ? plan.cells.back() + 1 + below(100) : -1;
      GroupCells ranges{first_row, plan.groups[0].rows.size(), 7 * i, {}};
      ranges.seen = seen_cells(plan, plan.groups[0], window, sink);
      CellGroup cells = cells_by_cell(plan, plan.groups[0], window, sink);
      std::tie(cells.first_row, cells.first_page) = std::tuple(first_row, 7 * i);
      first_row += ranges.num_rows;
      by_range.push_back(ranges);
      by_cell.push_back(cells);
    }
    const int32_t heads = 1 + below(8);
    const AttentionPlan expected = planned_by_cell(by_cell, heads);
    expect_same(plan_attention(by_range, heads), expected, seed);
    expect_same(plan_attention(ranges_of(by_cell), heads), expected, seed);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace lacuna::cuda::seen_cells_test
