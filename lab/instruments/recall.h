// MAGE's measurements of sparse attention (arXiv 2602.14209): how well cells that are selected for a whole
// block, at one of its steps, serve each of its rows and its later steps. Definitions and decisions:
// docs/methods/sparse_attention.md, section 2.
//
// The decoder attends to all cells and writes the same text as without this instrument; the selections of
// policies are computed in addition.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "decode/block_diffusion.h"
#include "instruments/instruments.h"
#include "instruments/recall_figures.h"

namespace lacuna {

// Observations.

enum class ChosenBy : uint8_t {
  kThisStep,   ///< heaviest_of_block() of the current step: the best single set for a block
  kFirstStep,  ///< MAGE: cells of the block's first step
  kQuest,
  kQuestPerToken,  ///< separate pages for each row, which passes do not support: shows Quest's cost of
                   ///< sharing
  kSparseD,        ///< includes the cells that were added since its set was stored
};
inline constexpr size_t kChosenBy = 5;
std::string_view name_of(ChosenBy policy);

struct PolicyFigures {
  double accuracy = 0;  ///< token_accuracy()
  double mass = 0;      ///< covered_mass()
  double error = 0;     ///< OutputError::relative()
};

/// The layer and the step of a block in which something was observed.
struct RecallPlace {
  int32_t layer = 0;  ///< from kDenseLayers on
  int32_t step = 1;   ///< 1-based step of the block
  double masked = 0;  ///< share of the block's positions that are masked before the step, [0, 1]
};

/// Means over kv heads; errors instead sum squares over all heads.
struct CellObservation {
  RecallPlace place;
  int32_t budget = 0;
  double recall = 0;  ///< recall of the first step's cells
  double union_ratio = 0;
  std::array<std::optional<PolicyFigures>, kChosenBy> policies{};  ///< SparseD's is empty until it is sparse
};

/// How far a layer's states are from those of the block's first step.
struct StateObservation {
  RecallPlace place;
  StateGap hidden = {};  ///< gap of the layer's input, before its norm
  StateGap query = {};   ///< gap of queries after RoPE: the mean over query heads
  double prefix_share = 0;
};

/// Divergence of one pass's predictions from those of the block's first step.
struct PredictionObservation {
  RecallPlace place;  ///< `layer` is not used
  double divergence =
      0;  ///< mean prediction_divergence() over the positions masked in both passes, at least one
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
  // Observations of the blocks that count for the smallest budget:
  std::vector<StateObservation> states;
  std::vector<PredictionObservation> predictions;
  // Over all blocks:
  std::vector<int32_t> block_steps;  ///< denoising steps that each took
  int64_t tokens = 0;                ///< of the answers
  int64_t forward_passes = 0;        ///< without those that only process the prompt
  int64_t commits = 0;               ///< denoised blocks for which a pass computed the final K/V
};

/// Runs all requests, one by one, until they are done. Needs memory for one pass's attention weights in all
/// layers. Throws InputError for models other than block diffusion, sparse decoders, decoders that compute
/// only a part of their block, budgets that are not ascending or smaller than a page, models without sparse
/// layers, and if no block has a prefix larger than the smallest budget.
RecallFindings analyze_recall(const BackendModel& model, ThreadPool& threads, Requests requests,
                              const RecallSettings& settings = {}, const AnalysisProgress& progress = {});

/// Formats the findings like those of the other instruments. Deciles and extremes are over observations; rows
/// without "step" and "masked" exclude first steps, at which MAGE is exact.
nlohmann::ordered_json to_json(const RecallFindings& findings);

}  // namespace lacuna
