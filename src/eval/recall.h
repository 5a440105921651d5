// Instruments of sparse attention, those of MAGE (arXiv 2602.14209): how well cells that are chosen for a
// whole block, at one of its steps, serve each of its rows and its later steps. Definitions and decisions:
// docs/methods/sparse_attention.md, section 2.
//
// The decoder attends to all cells and writes the same text as without this instrument; the selections of
// policies are computed in addition.
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

/// Attention weights of a block's rows in one layer, for the query heads that share a kv head: over the cells
/// before the block, then the block's own.
struct HeadAttention {
  int32_t num_rows = 0;
  int32_t num_heads = 0;           ///< query heads of this K/V head
  int32_t prefix = 0;              ///< cells before the block, >= 1
  int32_t num_cells = 0;           ///< with the block's own
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

/// Cells in both, over the budget. [0, 1] for sets of `budget` cells
double recall(const CellSet& before, const CellSet& now, int32_t budget);
/// Number of cells that any row selects, over the budget. [1, number of rows]
double union_ratio(std::span<const CellSet> of_rows, int32_t budget);
/// Share of a row's own cells that are in `chosen`: the mean over rows (MAGE's equation 1). [0, 1]
double token_accuracy(const CellSet& chosen, std::span<const CellSet> of_rows, int32_t budget);

/// Share of the attention weight on the prefix: the mean over rows and heads. [0, 1]
double prefix_share(const HeadAttention& attention);
/// Share of the prefix's weight on `chosen`: the mean over rows and heads, 1 if the prefix has none. [0, 1]
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
  /// ||sparse - exact|| / ||exact||; 0 if both are 0.
  double relative() const;
};

/// Attention outputs, exact and from fewer cells: the remaining weights, rescaled to sum to 1, times the
/// values.
class AttentionOutputs {
 public:
  ///   values  [num_cells, head_dim]
  /// Both must outlive it.
  AttentionOutputs(const HeadAttention& attention, ConstMatrix<float> values);

  /// Error of attending to `chosen` and the block's own cells only.
  OutputError error(const CellSet& chosen) const;

 private:
  const HeadAttention& attention_;
  ConstMatrix<float> values_;
  std::vector<double> exact_;  // [rows, heads, head_dim]
};

/// Distance of one head's queries from those of the block's first step. Relative distances are shares of the
/// length at the first step, 0 if that is 0.
struct QueryGap {
  double row = 0;             ///< mean over rows of the length of the difference
  double row_relative = 0;    ///< over the mean length
  double block = 0;           ///< length of the difference of the means over rows; at most `row`
  double block_relative = 0;  ///< over the length of the mean
};

///   first, now  [rows, head_dim]
QueryGap query_gap(ConstMatrix<float> first, ConstMatrix<float> now);

// Observations.

enum class ChosenBy : uint8_t {
  kThisStep,   ///< heaviest_of_block() of the step itself: the best that one set for a block can do
  kFirstStep,  ///< MAGE: cells of the block's first step
  kQuest,
  kSparseD,  ///< includes the cells that were added since its set was stored
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

/// Means over kv heads, except errors, whose sums of squares are over heads.
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

/// Results of all requests. A block is included for budgets that are smaller than its prefix.
struct RecallFindings {
  RecallSettings settings;
  std::vector<CellObservation> cells;
  std::vector<QueryObservation> queries;  ///< of blocks that count for the smallest budget
  // Over all blocks:
  std::vector<int32_t> block_steps;  ///< denoising steps that each took
  int64_t tokens = 0;                ///< of the answers
  int64_t forward_passes = 0;        ///< but those that only read the prompt
  int64_t commits = 0;               ///< blocks whose K/V were kept once they were denoised
};

/// Runs all requests, one by one, until they are done. Needs memory for one pass's attention weights in all
/// layers. Throws InputError for models of other kinds, sparse decoders, decoders that compute a part of
/// their block, budgets that are not ascending or smaller than a page, models without sparse layers, and if
/// no block has a prefix larger than the smallest budget.
RecallFindings analyze_recall(const BackendModel& model, ThreadPool& threads, Requests requests,
                              const RecallSettings& settings = {}, const AnalysisProgress& progress = {});

/// Formats the findings like those of the other instruments. Tenths and extremes are over observations; rows
/// without "step" and "masked" exclude first steps, at which MAGE is exact.
nlohmann::ordered_json to_json(const RecallFindings& findings);

}  // namespace lacuna
