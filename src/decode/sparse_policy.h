// Which part of a long prefix the passes of block diffusion attend to. docs/methods/sparse_attention.md,
// section 1, has the rules.
#pragma once

#include <cstdint>
#include <variant>

#include "model/plan.h"

namespace lacuna {

/// All cells, in every pass.
struct ExactAttention {
  bool operator==(const ExactAttention&) const = default;
};

/// MAGE (arXiv 2602.14209): the first step of a block attends to all and remembers the cells with the most
/// mass; the block's other steps attend to these.
struct Mage {
  int32_t budget = 512;                 ///< cells of each layer and kv head, >= 1
  int32_t dense_layers = kDenseLayers;  ///< first layers that attend to all, as in the other policies
  bool operator==(const Mage&) const = default;
};

/// Quest (Tang et al. 2024), for a block: every step chooses pages by a bound on the scores of their keys.
struct Quest {
  int32_t budget = 512;  ///< cells, >= page_size
  int32_t page_size = 16;
  int32_t dense_layers = kDenseLayers;
  bool operator==(const Quest&) const = default;
};

/// SparseD, for blocks: exact for a share of all planned steps, then confined to the cells remembered at that
/// time and to cells written since.
struct SparseD {
  int32_t budget = 512;
  double exact_share = 0.2;  ///< of the planned steps, [0, 1]
  int32_t dense_layers = kDenseLayers;
  bool operator==(const SparseD&) const = default;
};

/// FlashBlock (arXiv 2602.05305): rows keep their attention to the cells before the block and reuse it until
/// so many of the block's tokens have been written.
struct FlashBlock {
  int32_t updates = 2;  ///< written tokens from which on a step attends to all cells again, >= 1
  int32_t dense_layers = 0;
  bool operator==(const FlashBlock&) const = default;
};

/// LoSA (arXiv 2604.12056): the first step of a block attends to all cells; in later steps the rows that
/// changed most attend to the best pages, and the others reuse the attention that they kept.
struct Losa {
  static constexpr double kMinActive = 0.01;
  int32_t budget = 512;  ///< cells, >= page_size
  int32_t page_size = 16;
  double active_share = 0.3125;  ///< of a step's rows that attend to pages, rounded up
  int32_t dense_layers = kDenseLayers;
  bool operator==(const Losa&) const = default;
};

using SparsePolicy = std::variant<ExactAttention, Mage, Quest, SparseD, FlashBlock, Losa>;

/// Whether rows keep their attention to the cells before the block from one pass to the next.
bool keeps_attention(const SparsePolicy& policy);

/// Number of first layers that attend to all cells; kDenseLayers for ExactAttention.
int32_t dense_layers_of(const SparsePolicy& policy);

/// Chooses the cells that each pass of a request attends to.
class SparseSchedule {
 public:
  ///   planned_steps  steps of all blocks
  ///   sparse_after    steps of a block from this one on (0-based) are exact; 0: none are
  SparseSchedule(const SparsePolicy& policy, int32_t planned_steps, int32_t sparse_after);

  /// The rule for step `step` (0-based) of a block with `prefix` cells before it, of which it computes
  /// `rows`.
  SparseAttention denoise(int32_t prefix, int32_t step, int32_t rows) const;
  /// The rule for the pass that computes the block's K/V to keep, if that pass is sparse.
  SparseAttention commit(int32_t prefix) const;

  /// Called after the pass that denoise() described.
  ///   written  tokens that the step wrote
  void advance(const SparseAttention& attention, int32_t written);

 private:
  SparseAttention confined(int32_t prefix) const;

  SparsePolicy policy_;
  int32_t exact_steps_;  // SparseD: exact steps of the run
  int32_t exact_after_;
  int32_t num_steps_ = 0;
  int32_t num_written_ = 0;       // FlashBlock: by the last step that attended to all cells, and since
  int32_t remembered_among_ = 0;  // cells before the block when cells were remembered last; 0: never
};

}  // namespace lacuna
