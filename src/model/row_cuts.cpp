#include "model/row_cuts.h"

#include <algorithm>

#include "model/part.h"

namespace lacuna {
namespace {

/// [rows + 1] whether the plan may be cut before a row.
std::vector<bool> possible_cuts(const ModelConfig& config, const StepPlan& plan) {
  std::vector<bool> cuts(static_cast<size_t>(plan.num_rows()) + 1, true);
  const int64_t window = config.moe.window;
  for (const RowGroup& group : plan.groups) {
    const bool chooses =
        group.sparse.remembers() || group.sparse.choice == SparseAttention::Choice::kBestPages;
    for (int32_t row = group.rows.begin + 1; row < group.rows.end; ++row) {
      const auto index = static_cast<size_t>(row);
      const bool shares_experts =
          window > 0 && plan.positions[index - 1] / window == plan.positions[index] / window;
      if (chooses || shares_experts) cuts[index] = false;
    }
  }
  return cuts;
}

/// The possible cut nearest to a row; of two, the earlier one. Cuts at both ends are always possible.
int32_t nearest_cut(const std::vector<bool>& cuts, int64_t row) {
  for (int64_t distance = 0;; ++distance) {
    const int64_t before = std::max<int64_t>(0, row - distance);
    const int64_t behind = std::min<int64_t>(std::ssize(cuts) - 1, row + distance);
    if (cuts[static_cast<size_t>(before)]) return static_cast<int32_t>(before);
    if (cuts[static_cast<size_t>(behind)]) return static_cast<int32_t>(behind);
  }
}

}  // namespace

std::vector<IndexRange> rows_of_ranks(const ModelConfig& config, const StepPlan& plan, int ranks) {
  const std::vector<bool> cuts = possible_cuts(config, plan);
  std::vector<IndexRange> rows;
  int32_t begin = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const int32_t end = nearest_cut(cuts, ModelPart{rank, ranks}.cut(plan.num_rows()).end);
    rows.push_back({begin, end});
    begin = end;
  }
  return rows;
}

std::vector<IndexRange> pieces_for_stages(const StepPlan& plan, int ranks) {
  constexpr int32_t kMaxPiecesOfRank = 4;
  const int32_t most = kMaxPiecesOfRank * ranks;
  const int32_t least = std::max(kMinRowsOfPiece, (plan.num_rows() + most - 1) / most);
  std::vector<size_t> last_group;  // last group of each sequence
  for (size_t g = 0; g < plan.groups.size(); ++g) {
    const auto sequence = static_cast<size_t>(plan.groups[g].sequence);
    last_group.resize(std::max(last_group.size(), sequence + 1));
    last_group[sequence] = g;
  }
  std::vector<IndexRange> pieces;
  int32_t begin = 0;
  size_t needed = 0;  // the last group of any sequence so far
  for (size_t g = 0; g < plan.groups.size(); ++g) {
    const RowGroup& group = plan.groups[g];
    needed = std::max(needed, last_group[static_cast<size_t>(group.sequence)]);
    const bool leaves_enough = plan.num_rows() - group.rows.end >= least;
    if (needed > g || group.rows.end - begin < least || !leaves_enough) continue;
    pieces.push_back({begin, group.rows.end});
    begin = group.rows.end;
  }
  pieces.push_back({begin, plan.num_rows()});
  return pieces;
}

}  // namespace lacuna
