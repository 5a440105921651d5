// Division of a pass's rows: among ranks that divide the rows, or into pieces that follow each other through
// ranks that divide the layers.
#pragma once

#include <vector>

#include "model/config.h"
#include "model/plan.h"

namespace lacuna {

/// The rows that each of `ranks` computes, ascending; some may be empty. Sizes are as equal as possible, but
/// rows stay together in a group that chooses its cells, or in a window that shares experts
/// (MoeConfig::window).
std::vector<IndexRange> rows_of_ranks(const ModelConfig& config, const StepPlan& plan, int ranks);

/// Minimum rows of a piece, unless the plan has fewer: about the number from which arithmetic takes longer
/// than reading the weights, which every piece reads again.
inline constexpr int32_t kMinRowsOfPiece = 64;

/// Pieces of the plan that share no sequence, ascending. A rank can compute its layers of one piece while the
/// next rank computes the previous piece. At most four pieces per rank.
std::vector<IndexRange> pieces_for_stages(const StepPlan& plan, int ranks);

}  // namespace lacuna
