// Distillation of a teacher's trajectories, the order in which it wrote its answers' tokens, into a student
// that needs fewer passes (d3LLM: hao-ai-lab/d3LLM, its published training code; "pseudo-trajectories").
//
// The teacher answers each prompt of the batch, block by block, one token per pass, the most confident first.
// The student sees a state of that trajectory and predicts the tokens that the teacher wrote later in the
// same block:
//
//   L = mean over the masked tokens of the block, of all rows, of -log p(y_i | state),
//
// where y_i are the teacher's tokens. Of the n tokens of a block, the n - floor((1 - t) n) that were written
// last are masked, with t uniform in [low, 0.8]; low rises from 0.2 to 0.8 over the run. For masked
// diffusion, one random block of the answer is learned, with clean blocks before it and masks after it; for
// block diffusion, all blocks are learned in one pass. Three parts of the published recipe are left out:
// blocks that grow during the run, a second pass with complementary masks, and a temperature in the entropy
// loss (--confidence-weight).
#pragma once

#include <cstdint>

#include "train/model.h"
#include "train/objective.h"

namespace lacuna::train {

struct Trajectory {
  Batch batch;          ///< with the teacher's answers as responses
  torch::Tensor order;  ///< [B, T] int64: number of the teacher's pass that wrote the token; -1: given
};

inline constexpr double kFirstMaskRatio = 0.2;  // least ratio at the start of a run
inline constexpr double kLastMaskRatio = 0.8;   // least ratio at its end, and the largest throughout

/// Whether the family supports trajectories: dense masked diffusion, or blocks with one masked copy.
bool has_trajectories(const FamilyTraits& family);

/// Answers the batch with the teacher, a model of masked or block diffusion. Blocks of `block_length` start
/// at the response for masked diffusion, at position 0 for block diffusion.
Trajectory record_trajectory(Transformer& teacher, const Batch& batch, int64_t block_length, int64_t mask_id);

///   progress  the finished share of the run, in [0, 1]
Examples trajectory_examples(const FamilyTraits& family, const Trajectory& trajectory, int64_t block_length,
                             int64_t mask_id, double progress, uint64_t seed, uint64_t step);

}  // namespace lacuna::train
