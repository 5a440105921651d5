// Cells that the rows of a group see, as ranges: planning takes no time per cell of a long context.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cuda/kernels/attention.h"
#include "model/plan.h"

namespace lacuna::cuda {

/// Ranges of cells that a group sees, ascending and disjoint; adjacent ranges with the same rows are joined.
///   window  size of the sliding window in positions; 0: no window
///   sink    cell of the attention sink, which all rows see; -1: none
std::vector<SeenCells> seen_cells(const StepPlan& plan, const RowGroup& group, int64_t window, int32_t sink);

}  // namespace lacuna::cuda
