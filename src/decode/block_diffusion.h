// Block diffusion: blocks of positions are denoised one after the other. A row sees its own block in both
// directions and all earlier blocks, whose K/V never change once the pass that read their final tokens has
// written them.
//
// SDAR (generate.py of JetAstra/SDAR): no shift, blocks begin at position 0, so that the prompt's tail lies
// in the first block that is denoised. Decisions: confidence is the probability of the drawn token in the
// unfiltered softmax; a finished block's K/V are computed in the same pass as the next block's first step,
// before that block reads them (the same bits as in a pass of their own); the mask token is never drawn.
#pragma once

#include <cstdint>
#include <vector>

#include "decode/decoder.h"
#include "decode/unmask.h"
#include "model/sampling.h"

namespace lacuna {

struct BlockDiffusion {
  TokenId mask_id = 0;
  std::vector<TokenId> end_ids;
  int32_t gen_length = 128;
  int32_t block_length = 4;
  int32_t steps = 4;  ///< of a block, for rules that split its positions over steps
  UnmaskPolicy unmask;
  SamplingRule sampling;
  uint64_t seed = 0;
};

class BlockDiffusionDecoder final : public Decoder {
 public:
  /// Options must be consistent (make_decoder checks them); the prompt has no mask token.
  BlockDiffusionDecoder(BlockDiffusion options, std::vector<TokenId> prompt);

  int32_t num_sequences() const override { return 1; }
  int32_t num_cells() const override { return static_cast<int32_t>(tokens_.size()); }
  bool done() const override { return done_; }
  const StepPlan& plan() override;
  PassWork uncached_work() const override;
  StepReport apply(std::span<const RowStatistics> drawn) override;
  std::span<const TokenId> canvas() const override;
  int32_t prompt_length() const override { return prompt_length_; }
  StopReason stop_reason() const override { return stop_reason_; }

 private:
  int32_t begin_of(int32_t block) const { return block * options_.block_length; }
  /// Rows of the blocks from `first` to the current one; tokens of the current one's masks are drawn.
  void build_plan(int32_t first, StepPlan& plan) const;
  std::vector<int32_t> masked_positions() const;
  void start_block(int32_t block);
  void finish_block();

  BlockDiffusion options_;
  int32_t prompt_length_;
  int32_t length_;               // of the canvas, without what fills its last block
  std::vector<TokenId> tokens_;  // whole blocks
  int32_t first_block_;          // the first that is denoised
  int32_t block_ = 0;
  int32_t num_kept_ = 0;  // blocks whose K/V are in their cells
  int32_t step_ = 0;
  BlockProgress progress_;
  bool is_planned_ = false;
  StepPlan plan_;
  bool done_ = false;
  StopReason stop_reason_ = StopReason::kLength;
};

}  // namespace lacuna
