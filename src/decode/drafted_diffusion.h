// Block diffusion with a smaller model (the guide) that drafts: it denoises a block, and one pass of the main
// model judges all drafts from left to right.
//
// SimSD (arXiv 2606.02544); docs/methods/block_diffusion.md, section 12, has the rules.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "decode/block_diffusion.h"

namespace lacuna {

class DraftedDiffusionDecoder final : public SequenceDecoder {
 public:
  /// Options must be consistent (make_decoder checks them). `unmask` and `steps` are those of the drafts.
  DraftedDiffusionDecoder(BlockDiffusion options, std::vector<TokenId> prompt);

  int32_t num_cells() const override { return num_positions() + 2 * options_.block_length; }
  int32_t num_guide_cells() const override { return num_positions(); }
  ModelRole role() const override { return role_; }
  ExactPrefix exact_prefix() const override;
  void skip_prefix(int32_t count) override { num_kept_ = count / options_.block_length; }
  const StepPlan& plan() override;
  PassWork uncached_work() const override;
  StepReport apply(const PassResult& result) override;
  int32_t num_final() const override;
  IndexRange block() const override { return {begin_of(block_), begin_of(block_ + 1)}; }

 private:
  struct Draft {
    int32_t position = 0;
    TokenId token = 0;
    int32_t step = 0;  // 0-based, of the drafts of this round
    RngStream noise{0};
  };

  int32_t begin_of(int32_t block) const { return block * options_.block_length; }
  /// Positions of the canvas and the rest of its last block.
  int32_t num_positions() const { return static_cast<int32_t>(tokens_.size()); }
  int32_t first_masked() const;
  /// Begins a round: the guide drafts the masks of the first block that has any.
  void start_round();
  /// Takes a pass of the guide.
  void apply_drafts(const PassResult& result);
  /// Adds the blocks whose K/V are missing, in one pass or several, and if none is left the drafts.
  void build_plan() override;
  void plan_drafts();
  /// Whether the next pass of the main model only computes K/V.
  bool keeps_only() const { return block_ - num_kept_ > most_kept_blocks(options_.block_length); }
  void judge(std::span<const RowStatistics> judged, StepReport& report);

  BlockDiffusion options_;
  int32_t first_block_;  // first block that is drafted
  int32_t block_;
  int32_t round_ = 0;
  ModelRole role_ = ModelRole::kGuide;
  std::optional<BlockDiffusionDecoder> drafter_;  // of this round
  int32_t num_kept_by_guide_ = 0;                 // blocks
  std::vector<Draft> drafts_;                     // of this round, by steps, then by positions
};

}  // namespace lacuna
