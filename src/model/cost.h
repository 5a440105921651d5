// Cost of a pass, computed only from its plan.
#pragma once

#include <cstdint>
#include <span>

#include "model/config.h"
#include "model/pass_result.h"
#include "model/plan.h"

namespace lacuna {

struct StepCost {
  int64_t rows = 0;         ///< rows that only some layers compute count for these layers' share
  int64_t sparse_rows = 0;  ///< rows to which sparse attention showed only some of the cells before the block
  /// Counts 2 for each multiplication of a matmul or of attention, and nothing else (SureLock, section 2.4).
  double layer_flops = 0;
  double head_flops = 0;  ///< logits, including those that only measure drift
  double bytes = 0;       ///< weights read, K/V cells read and written, as if the request ran alone

  double flops() const { return layer_flops + head_flops; }

  StepCost& operator+=(const StepCost& other) {
    rows += other.rows;
    sparse_rows += other.sparse_rows;
    layer_flops += other.layer_flops;
    head_flops += other.head_flops;
    bytes += other.bytes;
    return *this;
  }
};

/// FLOPs of one row in the layers: projections, feed-forward parts (only chosen experts) and router.
double flops_per_row(const ModelConfig& config);
/// FLOPs of one row attending to one cell in all layers: scores and weighted values.
double flops_per_cell(const ModelConfig& config);
/// Expected share of the layers' weights that a pass over `rows` rows reads; below 1 if no row chooses some
/// experts. Assumes that a row chooses each expert with equal probability.
double share_of_weights_read(const ModelConfig& config, double rows);
/// FLOPs of one row of logits.
double flops_per_logits(const ModelConfig& config);

/// Amount of work of a pass, independent of the model.
struct PassWork {
  int64_t rows = 0;
  double pairs = 0;       ///< pairs of a row and a cell that it attends to
  double cells = 0;       ///< cells read, summed over groups
  double logit_rows = 0;  ///< guidance counts a row twice
  // Included above, but not computed by the last layer:
  int64_t only_kv_rows = 0;
  double only_kv_pairs = 0;
  int64_t sparse_rows = 0;  ///< rows that sparse attention hides some cells from
  // Included above, but skipped by sparse attention in layers from `dense_layers` on:
  double unchosen_pairs = 0;
  double unchosen_cells = 0;
  int32_t dense_layers = kDenseLayers;
  // Included above, but skipped by LayerReuse in all layers but the first:
  double reused_rows = 0;
  double reused_pairs = 0;
  double evicted_rows = 0;  ///< included above, but left out from the second layer's attention on
};

PassWork work_of(const StepPlan& plan);
/// Leaves out the rows that a pass has evicted.
///   samples  [plan.logits]
void leave_out_evicted(const StepPlan& plan, std::span<const RowStatistics> samples, PassWork& work);
/// Rows of logits that a follow-up computes.
double logit_rows_of(const FollowUp& wanted);

/// Bytes that passes read, in their stored format.
struct ModelBytes {
  double layers = 0;  ///< weights of all layers and of all their experts
  double head = 0;
  double cell = 0;  ///< keys and values of one cell in all layers
};

StepCost cost(const ModelConfig& config, const ModelBytes& bytes, const PassWork& work);

}  // namespace lacuna
