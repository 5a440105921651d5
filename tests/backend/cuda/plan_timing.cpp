// Prints how long it takes to plan the attention of a pass, by ranges as passes do it and cell by cell.
#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "backend/cuda/seen_cells.h"
#include "base/clock.h"
#include "planned_by_cell.h"

namespace lacuna::cuda {
namespace {

constexpr int32_t kHeads = 4;  // per kv head
constexpr int32_t kRows = 4;   // of a block

StepPlan plan_of(int32_t sequences, int32_t cells) {
  StepPlan plan;
  for (int32_t sequence = 0; sequence < sequences; ++sequence) {
    const auto first = static_cast<int32_t>(plan.tokens.size());
    plan.groups.push_back({.sequence = sequence, .rows = {first, first + kRows}, .visible = {{0, cells}}});
    for (int32_t row = 0; row < kRows; ++row) {
      plan.tokens.push_back(0);
      plan.positions.push_back(cells + row);
      plan.cells.push_back(cells + row);
    }
  }
  return plan;
}

template <typename Run>
double median_us(Run&& run) {
  std::vector<double> times;
  for (int i = 0; i < 21; ++i) {
    const Stopwatch clock;
    run();
    times.push_back(1e6 * clock.seconds());
  }
  std::nth_element(times.begin(), times.begin() + 10, times.end());
  return times[10];
}

void time(int32_t sequences, int32_t cells) {
  const StepPlan plan = plan_of(sequences, cells);
  size_t runs = 0;
  const double by_range = median_us([&] {
    std::vector<GroupCells> groups;
    for (const RowGroup& group : plan.groups) {
      groups.push_back({group.rows.begin, group.rows.size(), 0, {}});
      groups.back().seen = seen_cells(plan, group, 0, -1);
    }
    runs += plan_attention(groups, kHeads).runs.size();
  });
  const double by_cell = median_us([&] {
    std::vector<CellGroup> groups;
    for (const RowGroup& group : plan.groups) groups.push_back(cells_by_cell(plan, group, 0, -1));
    runs -= planned_by_cell(groups, kHeads).runs.size();
  });
  fmt::print("{:4} sequences of {:6} cells: {:8.1f} us by ranges, {:8.1f} us by cell{}\n", sequences, cells,
             by_range, by_cell, runs == 0 ? "" : "; the plans differ");
}

}  // namespace
}  // namespace lacuna::cuda

int main() {
  lacuna::cuda::time(1, 32768);
  lacuna::cuda::time(32, 1024);
  lacuna::cuda::time(128, 2048);
  lacuna::cuda::time(128, 8192);
}
