// Metrics of sparse attention and of MAGE's explanation of it (arXiv 2602.14209), computed from the attention
// weights, values, queries, hidden states and logits of a block's rows. Definitions and decisions:
// docs/methods/sparse_attention.md, section 2.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/matrix.h"
#include "base/token.h"

namespace lacuna {

using CellSet = std::vector<int32_t>;  ///< ascending

/// Attention weights of a block's rows in one layer, for the query heads that share a kv head. The cells
/// before the block come first, then the block's own.
struct HeadAttention {
  int32_t num_rows = 0;
  int32_t num_heads = 0;           ///< query heads of this K/V head
  int32_t prefix = 0;              ///< cells before the block, >= 1
  int32_t num_cells = 0;           ///< prefix and the block's own cells
  std::span<const float> weights;  ///< [num_rows, num_heads, num_cells]; a row's head adds up to 1

  const float* row(int32_t index, int32_t head) const {
    return weights.data() + (int64_t{index} * num_heads + head) * num_cells;
  }
};

// Sets of `budget` cells of the prefix, budget <= prefix; ties go to the lowest cell.

/// Cells with the largest weight, added over all rows and heads: MAGE's selection for a block (its equation
/// 2).
CellSet heaviest_of_block(const HeadAttention& attention, int32_t budget);
/// Cells with the largest weight for each row, added over the row's heads: the row's own selection.
std::vector<CellSet> heaviest_of_rows(const HeadAttention& attention, int32_t budget);

/// Number of cells in both sets, divided by the budget. [0, 1] for sets of `budget` cells
double recall(const CellSet& before, const CellSet& now, int32_t budget);
/// Number of cells that any row selects, divided by the budget. [1, number of rows]
double union_ratio(std::span<const CellSet> of_rows, int32_t budget);

// Metrics of selected cells: `chosen` is one set that all rows share, or a set for each row.

/// Share of a row's own cells that are in `chosen`: the mean over rows (MAGE's equation 1). [0, 1]
///   of_rows  [num_rows] heaviest_of_rows()
double token_accuracy(const CellSet& chosen, std::span<const CellSet> of_rows, int32_t budget);
double token_accuracy(std::span<const CellSet> chosen, std::span<const CellSet> of_rows, int32_t budget);

/// Share of the prefix's weight on `chosen`: the mean over rows and heads, 1 if the prefix has none. [0, 1]
double covered_mass(const HeadAttention& attention, const CellSet& chosen);
double covered_mass(const HeadAttention& attention, std::span<const CellSet> chosen);
/// Share of the attention weight on the prefix: the mean over rows and heads. [0, 1]
double prefix_share(const HeadAttention& attention);

/// Sums of squares over rows, heads and channels.
struct OutputError {
  double difference = 0;
  double exact = 0;

  OutputError& operator+=(const OutputError& other) {
    difference += other.difference;
    exact += other.exact;
    return *this;
  }
  /// ||sparse - exact|| / ||exact||; 0 if both are 0.
  double relative() const;
};

/// Attention outputs, exact and with fewer cells, for which the remaining weights are rescaled to sum to 1.
class AttentionOutputs {
 public:
  /// Both arguments must outlive this object.
  ///   values  [num_cells, head_dim]
  AttentionOutputs(const HeadAttention& attention, ConstMatrix<float> values);

  /// Error of attending to `chosen` and the block's own cells only.
  OutputError error(const CellSet& chosen) const;
  OutputError error(std::span<const CellSet> chosen) const;

 private:
  const HeadAttention& attention_;
  ConstMatrix<float> values_;
  std::vector<double> exact_;  // [rows, heads, head_dim]
};

/// Distance of a block's vectors, such as one head's queries or a layer's hidden states, from those of the
/// block's first step. Relative distances are shares of the length at the first step, 0 if that is 0.
struct StateGap {
  double row = 0;             ///< mean over rows of the length of the difference
  double row_relative = 0;    ///< `row` / mean length of the rows
  double block = 0;           ///< length of the difference of the means over rows; at most `row`
  double block_relative = 0;  ///< `block` / length of the mean over rows
};

///   first, now  [rows, width]
StateGap state_gap(ConstMatrix<float> first, ConstMatrix<float> now);

/// KL(now || first) of a row's predictions without the excluded token, in nats, >= 0.
///   first, now  [vocab_size] raw logits; those of the excluded token are overwritten
///   excluded    the mask token, which no decoder writes; -1: none
double prediction_divergence(std::span<float> first, std::span<float> now, TokenId excluded);

}  // namespace lacuna
