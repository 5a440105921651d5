// Device functions by which attention kernels iterate over the cells that a group sees.
#pragma once

#include "backend/cuda/kernels/cells.h"

namespace lacuna::cuda {

inline constexpr float kLog2E = 1.44269504088896340736F;
inline constexpr float kMinScore = -1e30F;  // finite, because the difference of two infinities is NaN

/// Iterates over the tiles of a task.
struct TileWalk {
  const TileRun* run = nullptr;
  const TileRun* end = nullptr;
  int32_t at = 0;

  LACUNA_DEVICE bool is_done() const { return run == end; }
  LACUNA_DEVICE int32_t tile() const { return run->first_tile + at; }
  /// First row of the group that sees the tile's cell.
  LACUNA_DEVICE int32_t first_row(const int32_t* masks, int32_t cell) const {
    return run->first_mask < 0 ? 0 : masks[run->first_mask + at * kPageCells + cell];
  }
  /// Whether a row of the group sees the tile's cell.
  LACUNA_DEVICE bool sees(const AttendArguments& a, int32_t row, int32_t cell) const {
    if (first_row(a.masks, cell) > row) return false;
    if (a.mask_ends == nullptr || run->first_mask < 0) return true;
    return row < a.mask_ends[run->first_mask + at * kPageCells + cell];
  }
  LACUNA_DEVICE void next() {
    if (++at < run->count) return;
    ++run;
    at = 0;
  }
};

/// Cell of the sequence for an index into the task's cells: mapped by the selection, if there is one. Some
/// row must see the cell.
LACUNA_DEVICE int32_t walked_cell(const AttendArguments& a, const AttendTask& task, int64_t kv_head,
                                  int32_t index) {
  if (task.selection < 0) return index;
  const CellSelection& selection = a.selections[task.selection];
  if (index >= selection.num_chosen) return a.behind[selection.first_behind + index - selection.num_chosen];
  return selection.chosen[(a.layer * a.pool.num_kv_heads + kv_head) * selection.num_chosen + index];
}

/// Memory of a cell of a sequence.
///   first_page  index in the page table of the sequence's first page
template <CellFormat kFormat>
LACUNA_DEVICE Cell<kFormat> cell_of_sequence(const AttendArguments& a, int32_t first_page, int64_t kv_head,
                                             int32_t cell) {
  const int64_t page = a.page_table[first_page + cell / kPageCells];
  return cell_of_page<kFormat>(a.pool, page, a.layer, kv_head, cell % kPageCells);
}

/// Converts the dot product of a query and a key to a score in units of log2.
LACUNA_DEVICE float scaled(const AttendArguments& a, float score) {
  float value = score * a.scale;
  if (a.soft_cap > 0) value = a.soft_cap * simt::tanh(value / a.soft_cap);
  return value * kLog2E;
}

}  // namespace lacuna::cuda
