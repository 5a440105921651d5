// One pass over a whole canvas that returns the logits of every row, for `lacuna logits` and the library.
#pragma once

#include <cstdint>
#include <span>

#include "backend/backend.h"
#include "base/matrix.h"
#include "base/token.h"
#include "model/config.h"
#include "model/plan.h"

namespace lacuna {

/// Which rows attend to which, beyond the model's config.
struct LogitsGroups {
  int32_t block_length = 0;  ///< block-causal models: rows per block; 0: as trained
  int32_t clean_prefix = 0;  ///< other models, and D2F's prompt: leading rows that attend to no later group
  int32_t canvas_begin =
      -1;  ///< models with canvases or a causal context: first row of the canvas; -1: no canvas
  bool is_conditioned = false;  ///< each row of the canvas is conditioned on a distribution
  float noise_level = 0;        ///< of the canvas, in models whose layers depend on it
};

/// Row i has token i and its K/V in cell i; nothing is sampled.
///   positions  of the rows, for RoPE; empty: 0, 1, ...
StepPlan logits_plan(const ModelConfig& config, std::span<const TokenId> tokens,
                     std::span<const int32_t> positions = {}, const LogitsGroups& groups = {});

/// Computes the pass in a sequence of its own; out  [rows of the plan, vocab_size]: raw logits
///   distributions  [rows, vocab_size] conditioning of the plan's last rows; may be empty
void compute_logits(const BackendModel& model, const StepPlan& plan, Matrix<float> out,
                    ConstMatrix<float> distributions = {});

}  // namespace lacuna
