// Groups of rows for tests of attention.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cuda/kernels/attention.h"

namespace lacuna::cuda {

/// A group whose rows see the first `prefix` cells and, from `own` on, one cell each.
///   causal  a row sees the group's cells up to its own; otherwise all of them
inline GroupCells group_of(int32_t first_row, int32_t num_rows, int32_t prefix, int32_t own, bool causal) {
  GroupCells group{.first_row = first_row, .num_rows = num_rows, .first_page = 0, .first_seen_by = {}};
  group.first_seen_by.assign(static_cast<size_t>(own + num_rows), kNeverSeen);
  std::fill_n(group.first_seen_by.begin(), prefix, 0);
  for (int32_t row = 0; row < num_rows; ++row)
    group.first_seen_by[static_cast<size_t>(own + row)] = causal ? row : 0;
  return group;
}

}  // namespace lacuna::cuda
