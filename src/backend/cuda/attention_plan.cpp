#include <algorithm>
#include <array>
#include <utility>

#include "backend/cuda/kernels/attention.h"

namespace lacuna::cuda {
namespace {

/// Adds the tile runs of a group to a plan, chunk by chunk.
class Runs {
 public:
  Runs(const GroupCells& group, AttentionPlan& plan) : group_(group), plan_(plan) {}

  /// Adds runs for the tiles in [tile, end) that some row sees. Adjacent tiles share a run if both or neither
  /// have a mask.
  void add(int32_t tile, int32_t end) {
    first_run_ = plan_.runs.size();
    while (tile < end) {
      const int32_t first_cell = tile * kPageCells;
      while (next_ < group_.seen.size() && group_.seen[next_].end <= first_cell) ++next_;
      if (next_ == group_.seen.size()) return;
      const SeenCells& seen = group_.seen[next_];
      const int32_t whole_tiles = std::min(seen.end / kPageCells, end) - tile;
      if (seen.begin >= first_cell + kPageCells) {
        tile = seen.begin / kPageCells;
      } else if (seen.begin <= first_cell && is_seen_by_all(seen) && whole_tiles > 0) {
        add_run(tile, whole_tiles, -1);
        tile += whole_tiles;
      } else {
        add_mixed(tile++);
      }
    }
  }

 private:
  bool is_seen_by_all(const SeenCells& cells) const {
    return cells.first_row == 0 && cells.end_row >= group_.num_rows;
  }

  void add_run(int32_t tile, int32_t count, int32_t mask) {
    if (plan_.runs.size() > first_run_) {
      TileRun& last = plan_.runs.back();
      if (last.first_tile + last.count == tile && (last.first_mask < 0) == (mask < 0)) {
        last.count += count;
        return;
      }
    }
    plan_.runs.push_back({tile, count, mask});
  }

  /// Adds a tile with a mask, unless all rows see all its cells or no row sees any.
  void add_mixed(int32_t tile) {
    std::array<int32_t, kPageCells> first, end;
    first.fill(kNoRow);
    end.fill(kNoRow);
    const int32_t first_cell = tile * kPageCells;
    bool by_some = false;
    int32_t num_by_all = 0;
    for (size_t i = next_; i < group_.seen.size() && group_.seen[i].begin < first_cell + kPageCells; ++i) {
      const SeenCells& seen = group_.seen[i];
      const int32_t from = std::max(seen.begin - first_cell, 0);
      const int32_t to = std::min(seen.end - first_cell, kPageCells);
      std::fill(first.begin() + from, first.begin() + to, seen.first_row);
      std::fill(end.begin() + from, end.begin() + to, seen.end_row);
      by_some |= seen.first_row < group_.num_rows;
      if (is_seen_by_all(seen)) num_by_all += to - from;
    }
    if (!by_some) return;
    if (num_by_all == kPageCells) {
      add_run(tile, 1, -1);
      return;
    }
    add_run(tile, 1, static_cast<int32_t>(plan_.masks.size()));
    plan_.masks.insert(plan_.masks.end(), first.begin(), first.end());
    plan_.mask_ends.insert(plan_.mask_ends.end(), end.begin(), end.end());
  }

  const GroupCells& group_;
  AttentionPlan& plan_;
  size_t next_ = 0;       // first range of group_.seen that ends after the start of the tile
  size_t first_run_ = 0;  // first run of the chunk
};

}  // namespace

int32_t chunk_end(int32_t cell) {
  const int32_t size = cell < 8192 ? 512 : cell < 16384 ? 1024 : 2048;
  return (cell / size + 1) * size;
}

size_t num_merges(const GroupCells& group, int32_t heads_per_kv_head) {
  return static_cast<size_t>((group.num_rows * heads_per_kv_head + kTaskQueries - 1) / kTaskQueries);
}

AttentionPlan plan_attention(std::span<const GroupCells> groups, int32_t heads_per_kv_head) {
  AttentionPlan plan;
  std::vector<AttendTask> chunks;
  bool has_ends = false;
  for (const GroupCells& group : groups) {
    chunks.clear();
    Runs runs(group, plan);
    const int32_t cells = group.seen.empty() ? 0 : group.seen.back().end;
    for (int32_t cell = 0; cell < cells; cell = chunk_end(cell)) {
      const auto first_run = static_cast<int32_t>(plan.runs.size());
      const int32_t end = std::min(chunk_end(cell), cells);
      runs.add(cell / kPageCells, (end + kPageCells - 1) / kPageCells);
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
    has_ends |= std::any_of(group.seen.begin(), group.seen.end(),
                            [](const SeenCells& seen) { return seen.end_row != kNoRow; });
  }
  if (!has_ends) plan.mask_ends.clear();
  return plan;
}

}  // namespace lacuna::cuda
