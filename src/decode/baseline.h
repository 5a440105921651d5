// The uncached baseline: the work of the decoder in a family's paper for the same request, at the family's
// default settings and without caches added to it. docs/reference/statistics.md states it for each family.
#pragma once

#include <cstdint>

#include "decode/baseline_request.h"
#include "model/config.h"
#include "model/cost.h"

namespace lacuna {

/// Totals over the baseline's passes.
struct BaselineWork {
  int64_t passes = 0;
  int64_t passes_with_logits = 0;
  PassWork work;
};

BaselineWork baseline_work(const ModelConfig& config, const BaselineRequest& request);

/// Same as baseline_work(), in FLOPs and bytes.
StepCost baseline_cost(const ModelConfig& config, const ModelBytes& bytes, const BaselineRequest& request);

}  // namespace lacuna
