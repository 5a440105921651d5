#include <algorithm>
#include <utility>

#include "backend/cuda/kernels/attention.h"

namespace lacuna::cuda {
namespace {

/// The tile's cells, where all rows see all of them: -1.
int32_t add_mask(const GroupCells& group, int32_t tile, AttentionPlan& plan) {
  const auto rows_of = [&](int32_t cell) {
    const auto index = static_cast<size_t>(cell);
    if (index >= group.first_seen_by.size()) return std::pair(kNeverSeen, kNeverSeen);
    return std::pair(group.first_seen_by[index],
                     group.end_seen_by.empty() ? kNeverSeen : group.end_seen_by[index]);
  };
  bool all = true;
  for (int32_t i = 0; i < kPageCells; ++i) {
    const auto [first, end] = rows_of(tile * kPageCells + i);
    all &= first == 0 && end >= group.num_rows;
  }
  if (all) return -1;
  const auto first_mask = static_cast<int32_t>(plan.masks.size());
  for (int32_t i = 0; i < kPageCells; ++i) {
    const auto [first, end] = rows_of(tile * kPageCells + i);
    plan.masks.push_back(first);
    plan.mask_ends.push_back(end);
  }
  return first_mask;
}

bool is_seen(const GroupCells& group, int32_t tile) {
  const auto begin = group.first_seen_by.begin() + int64_t{tile} * kPageCells;
  const auto end = std::min(begin + kPageCells, group.first_seen_by.end());
  return std::any_of(begin, end, [&](int32_t row) { return row < group.num_rows; });
}

/// Runs of the tiles [tile, end) that some row sees; neighbours of one kind share a run.
void add_runs(const GroupCells& group, int32_t tile, int32_t end, AttentionPlan& plan) {
  const size_t first_run = plan.runs.size();
  for (; tile < end; ++tile) {
    if (!is_seen(group, tile)) continue;
    const int32_t mask = add_mask(group, tile, plan);
    if (plan.runs.size() > first_run) {
      TileRun& last = plan.runs.back();
      const bool follows = last.first_tile + last.count == tile && (last.first_mask < 0) == (mask < 0);
      if (follows) {
        ++last.count;
        continue;
      }
    }
    plan.runs.push_back({tile, 1, mask});
  }
}

}  // namespace

int32_t chunk_end(int32_t cell) {
  const int32_t size = cell < 8192 ? 512 : cell < 16384 ? 1024 : 2048;
  return (cell / size + 1) * size;
}

AttentionPlan plan_attention(std::span<const GroupCells> groups, int32_t heads_per_kv_head) {
  AttentionPlan plan;
  for (const GroupCells& group : groups) {
    std::vector<AttendTask> chunks;
    const auto cells = static_cast<int32_t>(group.first_seen_by.size());
    for (int32_t cell = 0; cell < cells; cell = chunk_end(cell)) {
      const auto first_run = static_cast<int32_t>(plan.runs.size());
      const int32_t end = std::min(chunk_end(cell), cells);
      add_runs(group, cell / kPageCells, (end + kPageCells - 1) / kPageCells, plan);
      const int32_t num_runs = static_cast<int32_t>(plan.runs.size()) - first_run;
      if (num_runs == 0) continue;
      chunks.push_back(
          {group.first_row, group.num_rows, 0, group.first_page, first_run, num_runs, group.selection});
    }
    for (int32_t query = 0; query < group.num_rows * heads_per_kv_head; query += kTaskQueries) {
      plan.merges.push_back({group.first_row, group.num_rows, query, static_cast<int32_t>(plan.tasks.size()),
                             static_cast<int32_t>(chunks.size())});
      for (AttendTask task : chunks) {
        task.first_query = query;
        plan.tasks.push_back(task);
      }
    }
  }
  const bool has_ends = std::any_of(groups.begin(), groups.end(),
                                    [](const GroupCells& group) { return !group.end_seen_by.empty(); });
  if (!has_ends) plan.mask_ends.clear();
  return plan;
}

}  // namespace lacuna::cuda
