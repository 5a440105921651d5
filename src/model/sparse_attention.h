// Selection of cells for sparse attention; docs/methods/sparse_attention.md, section 1, states the rules.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/matrix.h"
#include "kernels/attention.h"
#include "model/plan.h"

namespace lacuna {

/// The `count` cells of `among` with the largest mass, ascending; ties go to the lowest cell.
///   mass  attention mass of each cell of the tiles in `tile_runs`, contiguous (see Attention::mass())
std::vector<int32_t> heaviest_cells(std::span<const float> mass, std::span<const IndexRange> tile_runs,
                                    IndexRange among, int32_t count);

/// Mean over `queries` of the positive part and of the negative part's magnitude: [2, head_dim].
///   queries  [rows, head_dim]
std::vector<float> split_mean(ConstMatrix<float> queries);

/// Quest's upper bound on each page's scores: the mean over queries q of the sum over channels of max(q M, q
/// m), where M and m are the channel's largest and smallest key. Since max(q M, q m) = max(q, 0) M - max(-q,
/// 0) m, one dot product with the split means computes it.
///   largest, smallest  [pages * head_dim]
std::vector<float> page_scores(std::span<const float> split_means, std::span<const float> largest,
                               std::span<const float> smallest);

/// The cells, ascending, of the last page and the `count` - 1 other pages with the highest scores; ties go to
/// the lowest page.
std::vector<int32_t> cells_of_best_pages(std::span<const float> scores, int32_t count, int32_t page_size,
                                         int32_t num_cells);

/// Mean over rows of the sum of each kv head's query heads: [kv_heads * head_dim].
///   queries  [*, heads * head_dim], the query heads of a kv head are contiguous
///   rows     rows of `queries`, at least one
std::vector<double> head_means(ConstMatrix<float> queries, IndexRange rows, int64_t kv_heads,
                               int64_t head_dim);

/// The SparseAttention::num_chosen() cells with the largest pooled scores, ascending; ties go to the lowest
/// cell.
///   scores  score of each candidate
std::vector<int32_t> best_scored_cells(std::span<const float> scores, const SparseAttention& sparse);

/// Mean of the squared differences.
float mean_square_change(std::span<const float> before, std::span<const float> now);

/// The `count` indices with the largest values, ascending; ties go to the lowest.
std::vector<int32_t> largest_indices(std::span<const float> values, int32_t count);

/// Attention of one query head of one row to all its cells, from its parts (see Attention::part_dim()) of
/// two sets of cells.
///   adds_kept  whether `kept` adds its values; its sum always counts
///   out        [head_dim]
void merge_parts(std::span<const float> kept, std::span<const float> own, bool adds_kept,
                 std::span<float> out);

}  // namespace lacuna
