// Results of a forward pass, and follow-ups on its rows before the next pass.
#pragma once

#include <span>

#include "model/drift.h"
#include "model/plan.h"
#include "model/sampling.h"
#include "model/token_classes.h"

namespace lacuna {

/// Results of one forward pass. The spans view the workspace and are valid until its next pass.
struct PassResult {
  std::span<const RowStatistics> samples;  ///< [StepPlan::logits.size()], in their order
  /// [num_rows, num_layers, 2] if StepPlan::measures_kv_drift, else empty: 1 - cosine between a row's new key
  /// (0) or value (1) and the cell's previous one, all heads as one vector. 0 if both are zero.
  std::span<const float> kv_drift = {};
  /// [RowGroup::rollout_size()] for each group, one after another: the share of each cell in what the layers
  /// write to all cells, by attention rollout (rollout.cpp).
  std::span<const double> rollout = {};
};

/// A request on the rows of a pass that has just been computed.
struct FollowUp {
  std::span<const LogitRow> logits = {};    ///< more tokens to sample; rows and rules are those of the plan
  std::span<const DriftProbe> probes = {};  ///< rows whose posterior is compared with the remembered one
  std::span<const ClassRow> classes = {};   ///< rows to reduce by token classes; rules are those of the plan

  bool empty() const { return logits.empty() && probes.empty() && classes.empty(); }
};

/// Results of a follow-up. The spans are valid until the next follow-up or pass in the same workspace.
struct FollowUpResult {
  std::span<const RowStatistics> samples = {};  ///< [FollowUp::logits.size()], in their order
  std::span<const Drift> drifts = {};           ///< [FollowUp::probes.size()], in their order
  /// [rows of FollowUp::classes][classes of the row], flattened.
  std::span<const ClassStatistics> classes = {};
};

/// Number of classes of all rows together.
inline size_t count_classes(std::span<const ClassRow> rows) {
  size_t count = 0;
  for (const ClassRow& row : rows) count += static_cast<size_t>(row.classes->count);
  return count;
}

}  // namespace lacuna
