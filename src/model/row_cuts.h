// How the rows of a pass are divided: among ranks that compute rows of the same pass, or into pieces that
// follow each other through ranks that compute layers.
#pragma once

#include <vector>

#include "model/config.h"
#include "model/plan.h"

namespace lacuna {

/// The rows that each of `ranks` computes, ascending; some may be empty. As equal as they can be where rows
/// stay together of which something is computed together: those of a group that chooses the cells it attends
/// to, and those that share a window's experts (MoeConfig::window).
std::vector<IndexRange> rows_of_ranks(const ModelConfig& config, const StepPlan& plan, int ranks);

/// Fewest rows of a piece, if there are that many: about as many as it takes until arithmetic takes longer
/// than reading the weights, which each piece does anew.
inline constexpr int32_t kMinRowsOfPiece = 64;

/// Pieces of the plan that share no sequence, ascending, so that a rank can compute its layers of one while
/// the next rank computes those of the one before. At most four for each rank.
std::vector<IndexRange> pieces_for_stages(const StepPlan& plan, int ranks);

}  // namespace lacuna
