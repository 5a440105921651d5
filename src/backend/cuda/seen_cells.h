// Which cells the rows of a group see, by ranges: a plan takes no time for each cell of a long context.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cuda/kernels/attention.h"
#include "model/plan.h"

namespace lacuna::cuda {

/// Cells that a group sees, ascending and apart, neighbours of which the same rows see joined.
///   window  positions of layers that slide; 0: they see everything
///   sink    a cell that all rows see; -1: none
std::vector<SeenCells> seen_cells(const StepPlan& plan, const RowGroup& group, int64_t window, int32_t sink);

}  // namespace lacuna::cuda
