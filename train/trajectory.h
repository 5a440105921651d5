// Distillation of a teacher's trajectories: in which order it wrote its answers, for a student that writes
// them in fewer passes (d3LLM: hao-ai-lab/d3LLM, its published training code; "pseudo-trajectories").
//
// The teacher answers each prompt of the batch, one token a pass, the most confident first, block after
// block. The student sees a state of that trajectory and predicts what the teacher wrote later in the same
// block:
//
//   L = mean over the masked tokens of the block, of all rows, of -log p(y_i | state),
//
// where of the n tokens of a block, the n - floor((1 - t) n) that were written last are masked, with t
// uniform in [low, 0.8]; low rises from 0.2 to 0.8 over the run. For masked diffusion, the block is any of
// the answer's, with clean ones before and masks behind; for block diffusion, all blocks are learned in one
// pass, as usual. Left out of the published recipe: blocks that grow during the run, a second pass over the
// other tokens (those of complementary masks), and a temperature in the entropy, whose loss is
// --confidence-weight.
#pragma once

#include <cstdint>

#include "train/model.h"
#include "train/objective.h"

namespace lacuna::train {

struct Trajectory {
  Batch batch;          ///< with the teacher's answers in the place of the responses
  torch::Tensor order;  ///< [B, T] int64: the pass of the teacher that wrote the token; -1: given
};

inline constexpr double kFirstMaskRatio = 0.2;  // at the start of a run, and the largest at any time
inline constexpr double kLastMaskRatio = 0.8;

/// Whether trajectories of the family are recorded: dense masked and block diffusion with one masked copy.
bool has_trajectories(const FamilyTraits& family);

/// Answers the batch with the teacher, a model of masked or block diffusion. Blocks of `block_length` begin
/// with the response, or at position 0 where the family has blocks.
Trajectory record_trajectory(Transformer& teacher, const Batch& batch, int64_t block_length, int64_t mask_id);

///   progress  the finished share of the run, in [0, 1]
Examples trajectory_examples(const FamilyTraits& family, const Trajectory& trajectory, int64_t block_length,
                             int64_t mask_id, double progress, uint64_t seed, uint64_t step);

}  // namespace lacuna::train
