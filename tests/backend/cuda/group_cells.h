// Groups of rows for tests of attention, by cells.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/cuda/kernels/attention.h"

namespace lacuna::cuda {

/// GroupCells with a number for each cell.
struct CellGroup {
  int32_t first_row = 0;
  int32_t num_rows = 0;
  int32_t first_page = 0;
  std::vector<int32_t> first_seen_by;  ///< [cells]
  int32_t selection = -1;
  std::vector<int32_t> end_seen_by = {};  ///< [cells]; empty: to the last row

  /// The same in ranges of one cell.
  GroupCells ranges() const {
    GroupCells group{first_row, num_rows, first_page, {}, selection};
    for (size_t i = 0; i < first_seen_by.size(); ++i) {
      if (first_seen_by[i] == kNoRow) continue;
      const auto cell = static_cast<int32_t>(i);
      group.seen.push_back({cell, cell + 1, first_seen_by[i], end_seen_by.empty() ? kNoRow : end_seen_by[i]});
    }
    return group;
  }
};

inline std::vector<GroupCells> ranges_of(std::span<const CellGroup> groups) {
  std::vector<GroupCells> ranges;
  for (const CellGroup& group : groups) ranges.push_back(group.ranges());
  return ranges;
}

/// A group whose rows see the first `prefix` cells and, from `own` on, one cell each.
///   causal  a row sees the group's cells up to its own; otherwise all of them
inline CellGroup group_of(int32_t first_row, int32_t num_rows, int32_t prefix, int32_t own, bool causal) {
  CellGroup group{.first_row = first_row, .num_rows = num_rows, .first_page = 0, .first_seen_by = {}};
  group.first_seen_by.assign(static_cast<size_t>(own + num_rows), kNoRow);
  std::fill_n(group.first_seen_by.begin(), prefix, 0);
  for (int32_t row = 0; row < num_rows; ++row)
    group.first_seen_by[static_cast<size_t>(own + row)] = causal ? row : 0;
  return group;
}

}  // namespace lacuna::cuda
