// Results of a forward pass, and follow-ups on its rows before the next pass.
#pragma once

#include <span>

#include "model/drift.h"
#include "model/plan.h"
#include "model/sampling.h"
#include "model/token_classes.h"

namespace lacuna {

/// Results of one forward pass. The spans view the memory of the pass and are valid until the next pass in
/// the same workspace.
struct PassResult {
  std::span<const RowStatistics> samples;  ///< [StepPlan::logits.size()], in their order
  /// [num_rows, num_layers, 2] where StepPlan::measures_kv_drift, else empty: 1 - cosine between the key (0)
  /// and the value (1) that a row wrote and what its cell held before, all heads as one vector. 0 where both
  /// are zero.
  std::span<const float> kv_drift = {};
};

/// A request on the rows of a pass that has just been computed.
struct FollowUp {
  std::span<const LogitRow> logits = {};    ///< more tokens to sample; rows and rules are those of the plan
  std::span<const DriftProbe> probes = {};  ///< rows whose posterior is compared with the remembered one
  std::span<const ClassRow> classes = {};  ///< rows to read by classes of tokens; rules are those of the plan

  bool empty() const { return logits.empty() && probes.empty() && classes.empty(); }
};

/// Results of a follow-up. The spans are valid until the next follow-up or pass in the same workspace.
struct FollowUpResult {
  std::span<const RowStatistics> samples = {};  ///< [FollowUp::logits.size()], in their order
  std::span<const Drift> drifts = {};           ///< [FollowUp::probes.size()], in their order
  /// Row after row of FollowUp::classes, each with as many values as it has classes.
  std::span<const ClassStatistics> classes = {};
};

/// Statistics of all rows together.
inline size_t count_classes(std::span<const ClassRow> rows) {
  size_t count = 0;
  for (const ClassRow& row : rows) count += static_cast<size_t>(row.classes->count);
  return count;
}

}  // namespace lacuna
