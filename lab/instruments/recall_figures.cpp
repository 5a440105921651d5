#include "instruments/recall_figures.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>

#include "instruments/step_map.h"
#include "model/drift.h"
#include "model/sparse_attention.h"

namespace lacuna {
namespace {

int64_t in_common(const CellSet& a, const CellSet& b) {
  int64_t count = 0;
  for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end();) {
    count += *i == *j ? 1 : 0;
    const bool advances_a = *i <= *j;
    const bool advances_b = *j <= *i;
    i += advances_a ? 1 : 0;
    j += advances_b ? 1 : 0;
  }
  return count;
}

/// The heaviest cells of the prefix by the sum of the weights of `rows`.
CellSet heaviest_of(const HeadAttention& attention, IndexRange rows, int32_t budget) {
  const auto num_tiles = static_cast<int32_t>((attention.prefix + kCellTile - 1) / kCellTile);
  thread_local std::vector<float> mass;
  mass.assign(static_cast<size_t>(num_tiles * kCellTile), 0.0F);
  for (int32_t row = rows.begin; row < rows.end; ++row) {
    for (int32_t head = 0; head < attention.num_heads; ++head) {
      const float* weights = attention.row(row, head);
      for (int32_t cell = 0; cell < attention.prefix; ++cell)
        mass[static_cast<size_t>(cell)] += weights[cell];
    }
  }
  return heaviest_cells(mass, std::array{IndexRange{0, num_tiles}}, {0, attention.prefix}, budget);
}

/// Calls visit(weights, row) for each row and head.
template <typename Visit>
void for_each_row_head(const HeadAttention& attention, Visit&& visit) {
  for (int32_t row = 0; row < attention.num_rows; ++row) {
    for (int32_t head = 0; head < attention.num_heads; ++head) visit(attention.row(row, head), row);
  }
}

/// The set of a row: `chosen` has one for all rows, or one for each.
const CellSet& cells_of(std::span<const CellSet> chosen, int32_t row) {
  return chosen.size() == 1 ? chosen.front() : chosen[static_cast<size_t>(row)];
}

double sum_of(const float* weights, int32_t count) {
  double sum = 0;
  for (int32_t i = 0; i < count; ++i) sum += weights[i];
  return sum;
}

}  // namespace

CellSet heaviest_of_block(const HeadAttention& attention, int32_t budget) {
  return heaviest_of(attention, {0, attention.num_rows}, budget);
}

std::vector<CellSet> heaviest_of_rows(const HeadAttention& attention, int32_t budget) {
  std::vector<CellSet> of_rows;
  of_rows.reserve(static_cast<size_t>(attention.num_rows));
  for (int32_t row = 0; row < attention.num_rows; ++row) {
    of_rows.push_back(heaviest_of(attention, {row, row + 1}, budget));
  }
  return of_rows;
}

double recall(const CellSet& before, const CellSet& now, int32_t budget) {
  return static_cast<double>(in_common(before, now)) / budget;
}

double union_ratio(std::span<const CellSet> of_rows, int32_t budget) {
  CellSet all;
  for (const CellSet& cells : of_rows) {
    CellSet merged;
    std::set_union(all.begin(), all.end(), cells.begin(), cells.end(), std::back_inserter(merged));
    all = std::move(merged);
  }
  return static_cast<double>(all.size()) / budget;
}

double token_accuracy(const CellSet& chosen, std::span<const CellSet> of_rows, int32_t budget) {
  return token_accuracy(std::span(&chosen, 1), of_rows, budget);
}

double token_accuracy(std::span<const CellSet> chosen, std::span<const CellSet> of_rows, int32_t budget) {
  Average accuracy;
  for (int32_t row = 0; row < std::ssize(of_rows); ++row) {
    const int64_t count = in_common(cells_of(chosen, row), of_rows[static_cast<size_t>(row)]);
    accuracy.add(static_cast<double>(count) / budget);
  }
  return accuracy.mean();
}

double prefix_share(const HeadAttention& attention) {
  Average share;
  for_each_row_head(attention, [&](const float* weights, int32_t /*row*/) {
    share.add(sum_of(weights, attention.prefix));
  });
  return share.mean();
}

double covered_mass(const HeadAttention& attention, const CellSet& chosen) {
  return covered_mass(attention, std::span(&chosen, 1));
}

double covered_mass(const HeadAttention& attention, std::span<const CellSet> chosen) {
  Average covered;
  for_each_row_head(attention, [&](const float* weights, int32_t row) {
    const double prefix = sum_of(weights, attention.prefix);
    double kept = 0;
    for (const int32_t cell : cells_of(chosen, row)) kept += weights[cell];
    covered.add(prefix > 0 ? kept / prefix : 1);
  });
  return covered.mean();
}

double OutputError::relative() const {
  return exact > 0 ? std::sqrt(difference / exact) : 0;
}

namespace {

void add_scaled(std::span<double> sum, double weight, const float* values) {
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += weight * values[i];
}

}  // namespace

AttentionOutputs::AttentionOutputs(const HeadAttention& attention, ConstMatrix<float> values)
    : attention_(attention), values_(values) {
  const auto width = static_cast<size_t>(values.cols);
  exact_.resize(static_cast<size_t>(attention.num_rows * attention.num_heads) * width);
  std::span<double> left = exact_;
  for_each_row_head(attention, [&](const float* weights, int32_t /*row*/) {
    for (int32_t cell = 0; cell < attention.num_cells; ++cell) {
      add_scaled(left.first(width), weights[cell], values.row(cell));
    }
    left = left.subspan(width);
  });
}

OutputError AttentionOutputs::error(const CellSet& chosen) const {
  return error(std::span(&chosen, 1));
}

OutputError AttentionOutputs::error(std::span<const CellSet> chosen) const {
  OutputError error;
  std::vector<double> output(static_cast<size_t>(values_.cols));
  auto exact = exact_.begin();
  for_each_row_head(attention_, [&](const float* weights, int32_t row) {
    std::fill(output.begin(), output.end(), 0.0);
    double kept = 0;
    const auto attend = [&](int32_t cell) {
      kept += weights[cell];
      add_scaled(output, weights[cell], values_.row(cell));
    };
    for (const int32_t cell : cells_of(chosen, row)) attend(cell);
    for (int32_t cell = attention_.prefix; cell < attention_.num_cells; ++cell) attend(cell);
    for (const double sum : output) {
      const double wanted = *exact++;
      const double given = kept > 0 ? sum / kept : 0;
      error.difference += (given - wanted) * (given - wanted);
      error.exact += wanted * wanted;
    }
  });
  return error;
}

StateGap state_gap(ConstMatrix<float> first, ConstMatrix<float> now) {
  const auto width = static_cast<size_t>(first.cols);
  const auto rows = static_cast<double>(first.rows);
  std::vector<double> mean_first(width);
  std::vector<double> mean_difference(width);
  double length = 0;
  StateGap gap;
  const auto norm = [](double squares) { return std::sqrt(squares); };
  for (int64_t row = 0; row < first.rows; ++row) {
    double squares_first = 0;
    double squares_difference = 0;
    for (size_t i = 0; i < width; ++i) {
      const double value = first.row(row)[i];
      const double difference = now.row(row)[i] - value;
      squares_first += value * value;
      squares_difference += difference * difference;
      mean_first[i] += value / rows;
      mean_difference[i] += difference / rows;
    }
    length += norm(squares_first) / rows;
    gap.row += norm(squares_difference) / rows;
  }
  double squares_first = 0;
  double squares_difference = 0;
  for (size_t i = 0; i < width; ++i) {
    squares_first += mean_first[i] * mean_first[i];
    squares_difference += mean_difference[i] * mean_difference[i];
  }
  gap.block = norm(squares_difference);
  if (length > 0) gap.row_relative = gap.row / length;
  if (squares_first > 0) gap.block_relative = gap.block / norm(squares_first);
  return gap;
}

double prediction_divergence(std::span<float> first, std::span<float> now, TokenId excluded) {
  // So low that the probability is 0, but finite, because logits are subtracted.
  if (excluded >= 0) first[static_cast<size_t>(excluded)] = now[static_cast<size_t>(excluded)] = -1e30F;
  return measure_drift(now, first).kl;
}

}  // namespace lacuna
