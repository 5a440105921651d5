// What a pass costs, from its plan alone.
#pragma once

#include <cstdint>

#include "model/config.h"
#include "model/plan.h"

namespace lacuna {

struct StepCost {
  int64_t rows = 0;
  double flops = 0;  ///< 2 for each multiplication of a matrix product or of attention; nothing else counts

  StepCost& operator+=(const StepCost& other) {
    rows += other.rows;
    flops += other.flops;
    return *this;
  }
};

/// One row through the layers' projections, feed-forward parts (chosen experts only) and router.
double flops_per_row(const ModelConfig& config);
/// One row's queries against one cell, in all layers: scores and weighted values.
double flops_per_cell(const ModelConfig& config);
/// One row of logits.
double flops_per_logits(const ModelConfig& config);

StepCost cost(const ModelConfig& config, const StepPlan& plan);

}  // namespace lacuna
