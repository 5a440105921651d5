// How sparse attention chooses its cells. docs/methods/sparse_attention.md, section 1, has the rules.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/matrix.h"
#include "kernels/attention.h"
#include "model/plan.h"

namespace lacuna {

/// The `count` cells of `among` with the largest mass, ascending; ties go to the lowest cell.
///   mass  of each cell of the tiles in `tile_runs`, contiguous, as Attention::mass() has it
std::vector<int32_t> heaviest_cells(std::span<const float> mass, std::span<const IndexRange> tile_runs,
                                    IndexRange among, int32_t count);

/// Means over some rows' query heads of what is positive in a query and of what is negative: [2, head_dim],
/// the latter with its sign changed.
///   queries  [rows, head_dim]
std::vector<float> split_mean(ConstMatrix<float> queries);

/// The mean over queries q of sum over channels of max(q largest, q smallest), for each page: Quest's bound
/// on a page's scores. As max(q M, q m) = max(q, 0) M - max(-q, 0) m, one product with the split means gives
/// it.
///   largest, smallest  [pages * head_dim]
std::vector<float> page_scores(std::span<const float> split_means, std::span<const float> largest,
                               std::span<const float> smallest);

/// The last page and the `count` - 1 others that score most, as their cells in ascending order; ties go to
/// the lowest page.
std::vector<int32_t> cells_of_best_pages(std::span<const float> scores, int32_t count, int32_t page_size,
                                         int32_t num_cells);

/// The mean over rows of the sum of a kv head's query heads: [kv_heads * head_dim].
///   queries  [*, heads * head_dim], where the heads of a kv head are neighbours
///   rows     of `queries`, at least one
std::vector<double> head_means(ConstMatrix<float> queries, IndexRange rows, int64_t kv_heads,
                               int64_t head_dim);

/// The cells that a group remembers by the scores of its candidates: SparseAttention::num_chosen() with the
/// largest pooled scores, ascending; ties go to the lowest cell.
///   scores  of each candidate
std::vector<int32_t> best_scored_cells(std::span<const float> scores, const SparseAttention& sparse);

}  // namespace lacuna
