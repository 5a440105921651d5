// Instruments of sparse attention, those of MAGE (arXiv 2602.14209): how well cells that are chosen for a
// whole block, at one of its steps, serve each of its rows and its later steps. Definitions and decisions:
// docs/methods/sparse_attention.md, section 2.
//
// The decoder attends to all and writes what it would write unwatched; what a policy would have chosen is
// worked out beside it.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/matrix.h"
#include "decode/block_diffusion.h"
#include "eval/instruments.h"

namespace lacuna {

using CellSet = std::vector<int32_t>;  ///< ascending

/// What a block's rows attend to in one layer with the query heads that share a kv head: the cells before the
/// block, then the block's own.
struct HeadAttention {
  int32_t num_rows = 0;
  int32_t num_heads = 0;           ///< of the kv head
  int32_t prefix = 0;              ///< cells before the block, >= 1
  int32_t num_cells = 0;           ///< with the block's own
  std::span<const float> weights;  ///< [num_rows, num_heads, num_cells]; a row's head adds up to 1

  const float* row(int32_t index, int32_t head) const {
    return weights.data() + (int64_t{index} * num_heads + head) * num_cells;
  }
};

// Sets of `budget` cells of the prefix, budget <= prefix; ties go to the lowest cell.

/// The heaviest by the weights of all rows and heads, added up: what MAGE takes for a block (its equation 2).
CellSet heaviest_of_block(const HeadAttention& attention, int32_t budget);
/// For each row, the heaviest by the sum of the row's heads: what the row itself would take.
std::vector<CellSet> heaviest_of_rows(const HeadAttention& attention, int32_t budget);

/// Cells in both, over the budget. [0, 1] for sets of `budget` cells
double recall(const CellSet& before, const CellSet& now, int32_t budget);
/// Cells that any row would take, over the budget. [1, number of rows]
double union_ratio(std::span<const CellSet> of_rows, int32_t budget);
/// What of a row's own cells is chosen: the mean over rows (MAGE's equation 1). [0, 1]
double token_accuracy(const CellSet& chosen, std::span<const CellSet> of_rows, int32_t budget);

/// Of the weight, what falls on the prefix: the mean over rows and heads. [0, 1]
double prefix_share(const HeadAttention& attention);
/// Of the weight on the prefix, what falls on `chosen`: the mean over rows and heads, 1 where the prefix has
/// none. [0, 1]
double covered_mass(const HeadAttention& attention, const CellSet& chosen);

/// Sums of squares over rows, heads and channels.
struct OutputError {
  double difference = 0;
  double exact = 0;

  OutputError& operator+=(const OutputError& other) {
    difference += other.difference;
    exact += other.exact;
    return *this;
  }
  /// ||sparse - exact|| / ||exact||; 0 where both are 0.
  double relative() const;
};

/// What attention gives, and what it would give from fewer cells: the weights that are left, scaled to add up
/// to 1, times the values.
class AttentionOutputs {
 public:
  ///   values  [num_cells, head_dim]
  /// Both must outlive it.
  AttentionOutputs(const HeadAttention& attention, ConstMatrix<float> values);

  /// Of attending to `chosen` and the block's own cells.
  OutputError error(const CellSet& chosen) const;

 private:
  const HeadAttention& attention_;
  ConstMatrix<float> values_;
  std::vector<double> exact_;  // [rows, heads, head_dim]
};

/// How far the queries of one head went since the block's first step. Relative ones are shares of the length
/// at the first step, 0 where that is 0.
struct QueryGap {
  double row = 0;             ///< mean over rows of the length of the difference
  double row_relative = 0;    ///< over the mean length
  double block = 0;           ///< length of the difference of the means over rows; at most `row`
  double block_relative = 0;  ///< over the length of the mean
};

///   first, now  [rows, head_dim]
QueryGap query_gap(ConstMatrix<float> first, ConstMatrix<float> now);

// What is observed.

enum class ChosenBy : uint8_t {
  kThisStep,   ///< heaviest_of_block() of the step itself: the best that one set for a block can do
  kFirstStep,  ///< of the block's first step: MAGE
  kQuest,
  kSparseD,  ///< with all cells since its set was remembered
};
inline constexpr size_t kChosenBy = 4;
std::string_view name_of(ChosenBy policy);

struct PolicyFigures {
  double accuracy = 0;  ///< token_accuracy()
  double mass = 0;      ///< covered_mass()
  double error = 0;     ///< OutputError::relative()
};

/// When and where something was observed: a layer in a step of a block.
struct RecallPlace {
  int32_t layer = 0;  ///< from kDenseLayers on
  int32_t step = 1;   ///< of the block, 1 is the first
  double masked = 0;  ///< share of the block's positions that the step finds masked, [0, 1]
};

/// Means over kv heads, but for errors, whose sums of squares are over heads.
struct CellObservation {
  RecallPlace place;
  int32_t budget = 0;
  double recall = 0;  ///< of the first step's cells
  double union_ratio = 0;
  std::array<std::optional<PolicyFigures>, kChosenBy> policies{};  ///< SparseD: once it is sparse
};

/// Means over query heads.
struct QueryObservation {
  RecallPlace place;
  QueryGap gap = {};
  double prefix_share = 0;
};

struct RecallSettings {
  std::vector<int32_t> budgets = {64, 128, 256};  ///< ascending, each at least a page
  int32_t page_size = 16;                         ///< Quest's
  double exact_share = 0.2;                       ///< SparseD's, of the planned steps, [0, 1]
};

/// Of all requests. A block counts for the budgets that are smaller than its prefix.
struct RecallFindings {
  RecallSettings settings;
  std::vector<CellObservation> cells;
  std::vector<QueryObservation> queries;  ///< of blocks that count for the smallest budget
  // Of all blocks:
  std::vector<int32_t> block_steps;  ///< denoising steps that each took
  int64_t tokens = 0;                ///< of the answers
  int64_t forward_passes = 0;        ///< but those that only read the prompt
  int64_t commits = 0;               ///< blocks whose K/V were kept once they were denoised
};

/// Runs all requests, one by one, until they are done. Takes the memory of one pass's attention weights in
/// all layers. InputErrors: models of other kinds, sparse decoders or such that compute a part of their
/// block; budgets that are not ascending or smaller than a page; models without layers behind the dense ones;
/// and where no block has a prefix larger than the smallest budget.
RecallFindings analyze_recall(const Model& model, const KernelContext& context, Requests requests,
                              const RecallSettings& settings = {}, const AnalysisProgress& progress = {});

/// As of the other instruments. Tenths and extremes are over observations; rows without "step" and "masked"
/// leave out first steps, at which MAGE is exact.
nlohmann::ordered_json to_json(const RecallFindings& findings);

}  // namespace lacuna
