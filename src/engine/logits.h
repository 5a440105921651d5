// One pass over a whole canvas that gives the logits of every row, as `lacuna logits` and the library print
// them.
#pragma once

#include <cstdint>
#include <span>

#include "backend/backend.h"
#include "base/matrix.h"
#include "base/token.h"
#include "model/config.h"
#include "model/plan.h"

namespace lacuna {

/// Which rows see which, beyond what the model's config says.
struct LogitsGroups {
  int32_t block_length = 0;   ///< block-causal models: rows of a block; 0: as trained
  int32_t clean_prefix = 0;   ///< others, and D2F's prompt: number of first rows that see no rows after them
  int32_t canvas_begin = -1;  ///< models with canvases or a causal context: the first row that is denoised;
                              ///< -1: all rows are read
  bool is_conditioned = false;  ///< the canvas reads a distribution for each of its rows
};

/// Row i has token i and its K/V in cell i; nothing is sampled.
///   positions  of the rows, for RoPE; empty: 0, 1, ...
StepPlan logits_plan(const ModelConfig& config, std::span<const TokenId> tokens,
                     std::span<const int32_t> positions = {}, const LogitsGroups& groups = {});

/// Computes the pass in a sequence of its own; out  [rows of the plan, vocab_size]: raw logits
///   distributions  [rows, vocab_size] what the plan's last rows are conditioned on; may be empty
void compute_logits(const BackendModel& model, const StepPlan& plan, Matrix<float> out,
                    ConstMatrix<float> distributions = {});

}  // namespace lacuna
