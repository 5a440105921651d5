#include "model/sparse_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace lacuna {
namespace {

/// The `count` indices with the largest values, in any order; ties go to the lowest index. NaN counts as
/// infinity.
void keep_largest(std::span<const float> values, size_t count, std::vector<int32_t>& indices) {
  if (count >= indices.size()) return;
  const auto value_of = [&](int32_t index) {
    const float value = values[static_cast<size_t>(index)];
    return std::isnan(value) ? std::numeric_limits<float>::infinity() : value;
  };
  const auto is_before = [&](int32_t a, int32_t b) {
    const float value_a = value_of(a);
    const float value_b = value_of(b);
    return value_a != value_b ? value_a > value_b : a < b;
  };
  std::nth_element(indices.begin(), indices.begin() + static_cast<std::ptrdiff_t>(count), indices.end(),
                   is_before);
  indices.resize(count);
}

}  // namespace

std::vector<int32_t> heaviest_cells(std::span<const float> mass, std::span<const IndexRange> tile_runs,
                                    IndexRange among, int32_t count) {
  std::vector<float> of_cell(static_cast<size_t>(among.size()));
  size_t column = 0;
  for (const IndexRange& run : tile_runs) {
    for (int64_t cell = run.begin * kCellTile; cell < run.end * kCellTile; ++cell, ++column) {
      if (cell >= among.begin && cell < among.end)
        of_cell[static_cast<size_t>(cell - among.begin)] = mass[column];
    }
  }
  std::vector<int32_t> cells(of_cell.size());
  std::iota(cells.begin(), cells.end(), 0);
  keep_largest(of_cell, static_cast<size_t>(count), cells);
  std::sort(cells.begin(), cells.end());
  for (int32_t& cell : cells) cell += among.begin;
  return cells;
}

std::vector<float> split_mean(ConstMatrix<float> queries) {
  const auto dim = static_cast<size_t>(queries.cols);
  std::vector<float> means(2 * dim);
  for (int64_t row = 0; row < queries.rows; ++row) {
    const float* query = queries.row(row);
    for (size_t c = 0; c < dim; ++c) {
      means[c] += std::max(query[c], 0.0F);
      means[dim + c] += std::max(-query[c], 0.0F);
    }
  }
  for (float& mean : means) mean /= static_cast<float>(queries.rows);
  return means;
}

std::vector<float> page_scores(std::span<const float> split_means, std::span<const float> largest,
                               std::span<const float> smallest) {
  const size_t dim = split_means.size() / 2;
  std::vector<float> scores(largest.size() / dim);
  for (size_t page = 0; page < scores.size(); ++page) {
    const float* most = largest.data() + page * dim;
    const float* least = smallest.data() + page * dim;
    for (size_t c = 0; c < dim; ++c) {
      scores[page] += split_means[c] * most[c] - split_means[dim + c] * least[c];
    }
  }
  return scores;
}

std::vector<int32_t> cells_of_best_pages(std::span<const float> scores, int32_t count, int32_t page_size,
                                         int32_t num_cells) {
  std::vector<int32_t> pages(scores.size() - 1);
  std::iota(pages.begin(), pages.end(), 0);
  keep_largest(scores, static_cast<size_t>(count - 1), pages);
  std::sort(pages.begin(), pages.end());
  pages.push_back(static_cast<int32_t>(scores.size()) - 1);
  std::vector<int32_t> cells;
  for (const int32_t page : pages) {
    const int32_t end = std::min((page + 1) * page_size, num_cells);
    for (int32_t cell = page * page_size; cell < end; ++cell) cells.push_back(cell);
  }
  return cells;
}

std::vector<double> head_means(ConstMatrix<float> queries, IndexRange rows, int64_t kv_heads,
                               int64_t head_dim) {
  const int64_t width = queries.cols / kv_heads;  // total width of a kv head's query heads
  std::vector<double> means(static_cast<size_t>(kv_heads * head_dim));
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const float* query = queries.row(row);
    for (int64_t i = 0; i < queries.cols; ++i)
      means[static_cast<size_t>(i / width * head_dim + i % head_dim)] += double{query[i]};
  }
  for (double& mean : means) mean /= rows.size();
  return means;
}

std::vector<int32_t> best_scored_cells(std::span<const float> scores, const SparseAttention& sparse) {
  const auto count = static_cast<std::ptrdiff_t>(scores.size());
  const std::ptrdiff_t reach = sparse.pool / 2;
  std::vector<float> pooled(scores.size());
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    const auto begin = scores.begin() + std::max<std::ptrdiff_t>(0, i - reach);
    pooled[static_cast<size_t>(i)] =
        *std::max_element(begin, scores.begin() + std::min(count, i + reach + 1));
  }
  std::vector<int32_t> cells(scores.size());
  std::iota(cells.begin(), cells.end(), 0);
  keep_largest(pooled, static_cast<size_t>(sparse.num_chosen()), cells);
  std::sort(cells.begin(), cells.end());
  for (int32_t& cell : cells) cell = sparse.candidate(cell);
  return cells;
}

float mean_square_change(std::span<const float> before, std::span<const float> now) {
  double sum = 0;
  for (size_t i = 0; i < now.size(); ++i) {
    const double change = double{now[i]} - double{before[i]};
    sum += change * change;
  }
  return static_cast<float>(sum / static_cast<double>(now.size()));
}

std::vector<int32_t> largest_indices(std::span<const float> values, int32_t count) {
  std::vector<int32_t> indices(values.size());
  std::iota(indices.begin(), indices.end(), 0);
  keep_largest(values, static_cast<size_t>(count), indices);
  std::sort(indices.begin(), indices.end());
  return indices;
}

void merge_parts(std::span<const float> kept, std::span<const float> own, bool adds_kept,
                 std::span<float> out) {
  const size_t dim = out.size();
  const float largest = std::max(kept[dim], own[dim]);
  const float of_kept = std::exp(kept[dim] - largest);
  const float of_own = std::exp(own[dim] - largest);
  const float inverse = 1.0F / (of_kept * kept[dim + 1] + of_own * own[dim + 1]);
  const float kept_share = adds_kept ? of_kept * inverse : 0.0F;
  for (size_t i = 0; i < dim; ++i) out[i] = kept_share * kept[i] + of_own * inverse * own[i];
}

}  // namespace lacuna
