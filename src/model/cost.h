// Cost of a pass, computed from its plan alone.
#pragma once

#include <cstdint>

#include "model/config.h"
#include "model/pass_result.h"
#include "model/plan.h"

namespace lacuna {

struct StepCost {
  int64_t rows = 0;
  int64_t sparse_rows = 0;  ///< those to which sparse attention showed a part of the cells before the block
  /// 2 for each multiplication of a matrix product or of attention; nothing else counts (SureLock,
  /// section 2.4)
  double layer_flops = 0;
  double head_flops = 0;  ///< rows of logits, those that only measure drift included
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

/// One row through the layers' projections, feed-forward parts (chosen experts only) and router.
double flops_per_row(const ModelConfig& config);
/// One row's queries against one cell, in all layers: scores and weighted values.
double flops_per_cell(const ModelConfig& config);
/// Share of the layers' weights that a pass over so many rows reads: 1, or less where experts are left that
/// no row chose. Expected value, if each row chooses any experts with the same probability.
double share_of_weights_read(const ModelConfig& config, double rows);
/// One row of logits.
double flops_per_logits(const ModelConfig& config);

/// How much a pass computes, whatever the model.
struct PassWork {
  int64_t rows = 0;
  double pairs = 0;       ///< pairs of a row and a cell that it sees
  double cells = 0;       ///< read, by all groups together
  double logit_rows = 0;  ///< guidance counts a row twice
  // Included above, but left out by the last layer:
  int64_t only_kv_rows = 0;
  double only_kv_pairs = 0;
  int64_t sparse_rows = 0;  ///< those that sparse attention leaves without some of their cells
  // Included above, but left out by sparse attention in layers from `dense_layers` on:
  double unchosen_pairs = 0;
  double unchosen_cells = 0;
  int32_t dense_layers = kDenseLayers;
};

PassWork work_of(const StepPlan& plan);
/// Rows of logits that a follow-up computes.
double logit_rows_of(const FollowUp& wanted);

/// Bytes of a model's weights that passes read, in their stored format.
struct ModelBytes {
  double layers = 0;  ///< weights of all layers and of all their experts
  double head = 0;
  double cell = 0;  ///< keys and values of one token in all layers
};

StepCost cost(const ModelConfig& config, const ModelBytes& bytes, const PassWork& work);

}  // namespace lacuna
