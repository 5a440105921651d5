// The plan of attention cell by cell, which passes make by ranges: what tests and timings compare with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/cuda/kernels/attention.h"
#include "group_cells.h"
#include "model/plan.h"

namespace lacuna::cuda {

/// Cells that a group sees.
///   window  positions of layers that slide; 0: they see everything
///   sink    a cell that all rows see; -1: none
inline CellGroup cells_by_cell(const StepPlan& plan, const RowGroup& group, int64_t window, int32_t sink) {
  CellGroup cells{.first_row = group.rows.begin, .num_rows = group.rows.size(), .first_seen_by = {}};
  const auto see = [&](int32_t cell, int32_t row) {
    const auto index = static_cast<size_t>(cell);
    if (index >= cells.first_seen_by.size()) cells.first_seen_by.resize(index + 1, kNoRow);
    cells.first_seen_by[index] = std::min(cells.first_seen_by[index], row);
  };
  const auto begin_of = [&](int32_t row) {  // of the row's window
    const int64_t position = plan.positions[static_cast<size_t>(group.rows.begin + row)];
    return window == 0 ? 0 : std::max<int64_t>(0, position + 1 - window);
  };
  for (const IndexRange& range : group.visible) {
    for (int32_t cell = range.begin; cell < range.end; ++cell) {
      if (cell >= begin_of(0)) see(cell, 0);
    }
  }
  const bool is_causal = group.own_rows == OwnRows::kCausal;
  for (int32_t row = 0; row < group.rows.size() && group.own_rows != OwnRows::kNone; ++row)
    see(plan.cells[static_cast<size_t>(group.rows.begin + row)], is_causal ? row : 0);
  if (is_causal && begin_of(group.rows.size() - 1) > 0) {
    cells.end_seen_by.assign(cells.first_seen_by.size(), kNoRow);
    for (size_t cell = 0; cell < cells.end_seen_by.size(); ++cell) {
      for (int32_t row = group.rows.size() - 1; row >= 0; --row) {
        if (begin_of(row) > static_cast<int64_t>(cell)) cells.end_seen_by[cell] = row;
      }
    }
  }
  if (sink >= 0) see(sink, 0);
  if (!cells.end_seen_by.empty()) cells.end_seen_by.resize(cells.first_seen_by.size(), kNoRow);
  return cells;
}

/// plan_attention().
inline AttentionPlan planned_by_cell(std::span<const CellGroup> groups, int32_t heads_per_kv_head) {
  AttentionPlan plan;
  bool has_ends = false;
  for (const CellGroup& group : groups) {
    std::vector<AttendTask> chunks;
    const auto cells = static_cast<int32_t>(group.first_seen_by.size());
    for (int32_t cell = 0; cell < cells; cell = chunk_end(cell)) {
      const auto first_run = static_cast<int32_t>(plan.runs.size());
      for (int32_t tile = cell / kPageCells; tile * kPageCells < std::min(chunk_end(cell), cells); ++tile) {
        std::vector<int32_t> first, end;
        for (int32_t i = tile * kPageCells; i < (tile + 1) * kPageCells; ++i) {
          const auto index = static_cast<size_t>(i);
          first.push_back(i < cells ? group.first_seen_by[index] : kNoRow);
          const bool ends = i < cells && !group.end_seen_by.empty();
          end.push_back(ends ? group.end_seen_by[index] : kNoRow);
        }
        if (*std::min_element(first.begin(), first.end()) >= group.num_rows) continue;
        const bool all = *std::max_element(first.begin(), first.end()) == 0 &&
                         *std::min_element(end.begin(), end.end()) >= group.num_rows;
        const int32_t mask = all ? -1 : static_cast<int32_t>(plan.masks.size());
        if (!all) {
          plan.masks.insert(plan.masks.end(), first.begin(), first.end());
          plan.mask_ends.insert(plan.mask_ends.end(), end.begin(), end.end());
        }
        TileRun* last = static_cast<int32_t>(plan.runs.size()) > first_run ? &plan.runs.back() : nullptr;
        if (last != nullptr && last->first_tile + last->count == tile && (last->first_mask < 0) == all) {
          ++last->count;
        } else {
          plan.runs.push_back({tile, 1, mask});
        }
      }
      const int32_t num_runs = static_cast<int32_t>(plan.runs.size()) - first_run;
      if (num_runs > 0)
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
    has_ends |= !group.end_seen_by.empty();
  }
  if (!has_ends) plan.mask_ends.clear();
  return plan;
}

}  // namespace lacuna::cuda
