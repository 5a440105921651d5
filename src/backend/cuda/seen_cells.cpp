#include "backend/cuda/seen_cells.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"

namespace lacuna::cuda {
namespace {

bool begins_before(const SeenCells& a, const SeenCells& b) {
  return a.begin != b.begin ? a.begin < b.begin : a.first_row < b.first_row;
}

void add(std::vector<SeenCells>& ranges, const SeenCells& range) {
  if (range.begin >= range.end) return;
  if (!ranges.empty()) {
    SeenCells& last = ranges.back();
    if (last.end == range.begin && last.first_row == range.first_row && last.end_row == range.end_row) {
      last.end = range.end;
      return;
    }
  }
  ranges.push_back(range);
}

/// Sorted, disjoint union of ranges that all rows see.
std::vector<SeenCells> joined(std::vector<SeenCells> ranges) {
  std::sort(ranges.begin(), ranges.end(), begins_before);
  std::vector<SeenCells> apart;
  for (SeenCells range : ranges) {
    if (!apart.empty()) range.begin = std::max(range.begin, apart.back().end);
    add(apart, range);
  }
  return apart;
}

/// Adds the cells that only some rows see, unless `all` has them.
///   some  ranges of one cell each
std::vector<SeenCells> merged(const std::vector<SeenCells>& all, std::vector<SeenCells> some) {
  if (some.empty()) return all;
  std::sort(some.begin(), some.end(), begins_before);
  std::vector<SeenCells> both;
  both.reserve(all.size() + some.size());
  auto next = all.begin();
  for (const SeenCells& cell : some) {
    while (next != all.end() && next->begin <= cell.begin) add(both, *next++);
    if (both.empty() || both.back().end <= cell.begin) add(both, cell);
  }
  while (next != all.end()) add(both, *next++);
  return both;
}

/// Sliding windows of a group's rows.
class Windows {
 public:
  Windows(const StepPlan& plan, const RowGroup& group, int64_t window)
      : positions_(plan.positions.data() + group.rows.begin), rows_(group.rows.size()), window_(window) {}

  int64_t begin_of(int32_t row) const { return std::max<int64_t>(0, int64_t{positions_[row]} + 1 - window_); }
  bool are_ascending() const { return std::is_sorted(positions_, positions_ + rows_); }

  /// Sets end_row: cells are hidden from rows with windows that begin after them. Splits ranges as needed.
  std::vector<SeenCells> end(const std::vector<SeenCells>& ranges) const {
    std::vector<SeenCells> ended;
    int32_t row = 0;  // first row with a window that begins after rest.begin
    for (SeenCells rest : ranges) {
      while (rest.begin < rest.end) {
        while (row < rows_ && begin_of(row) <= rest.begin) ++row;
        SeenCells part = rest;
        if (row < rows_) {
          part.end = static_cast<int32_t>(std::min<int64_t>(part.end, begin_of(row)));
          part.end_row = row;
        }
        add(ended, part);
        rest.begin = part.end;
      }
    }
    return ended;
  }

 private:
  const int32_t* positions_;
  int32_t rows_;
  int64_t window_;
};

}  // namespace

std::vector<SeenCells> seen_cells(const StepPlan& plan, const RowGroup& group, int64_t window, int32_t sink) {
  const Windows windows(plan, group, window);
  // Cells before the first row's window are hidden from all rows, except for the group's own cells.
  const auto first = static_cast<int32_t>(window > 0 ? windows.begin_of(0) : 0);
  std::vector<SeenCells> all, some;
  for (const IndexRange& range : group.visible) add(all, {std::max(range.begin, first), range.end});
  const bool is_causal = group.own_rows == OwnRows::kCausal;
  for (int32_t i = 0; i < group.rows.size() && group.own_rows != OwnRows::kNone; ++i) {
    const int32_t cell = plan.cells[static_cast<size_t>(group.rows.begin + i)];
    if (is_causal && i > 0) {
      some.push_back({cell, cell + 1, i});
    } else {
      add(all, {cell, cell + 1});
    }
  }
  std::vector<SeenCells> seen = merged(joined(std::move(all)), std::move(some));
  if (is_causal && window > 0 && windows.begin_of(group.rows.size() - 1) > 0) {
    expects(windows.are_ascending(),
            "rows that see each other causally through a window have ascending positions");
    seen = windows.end(seen);
  }
  if (sink >= 0) {
    expects(seen.empty() || seen.back().end <= sink, "the sink lies behind the cells of its sequence");
    add(seen, {sink, sink + 1});
  }
  return seen;
}

}  // namespace lacuna::cuda
