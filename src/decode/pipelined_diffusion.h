// Block diffusion whose next blocks begin before a block is done (D2F, Wang et al. 2025). Rows see their own
// block and all blocks before it, finished or not; the K/V of a block are kept once it and all blocks before
// it are finished, so they are exact. docs/methods/block_diffusion.md, section 8, has the rules and their
// sources.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "decode/block_diffusion.h"
#include "decode/block_grid.h"
#include "decode/sequence_decoder.h"

namespace lacuna {

/// Whether a rule tests each token against a threshold; blocks whose steps may commit nothing need one.
bool has_threshold(const CountRule& rule);

class PipelinedDecoder final : public SequenceDecoder, public Constrainable {
 public:
  /// Options must be consistent (make_decoder checks them), without editing, sparse attention, lock and
  /// sub-blocks; without a pipeline a block begins when the one before is finished. With shifted logits the
  /// prompt is not empty.
  PipelinedDecoder(BlockDiffusion options, std::vector<TokenId> prompt);

  /// Empty if the prompt is one block: its K/V depend on all of its tokens.
  ExactPrefix exact_prefix() const override;
  void skip_prefix(int32_t count) override { num_kept_ = grid_.block_of(count); }
  PassWork uncached_work() const override;
  StepReport apply(const PassResult& result) override;
  std::vector<int32_t> sampled_positions() const override;
  Constrainable* constrainable() override { return this; }
  int32_t num_final() const override;
  TokenId held_token(int32_t position) const override {
    return is_masked(position) ? -1 : tokens_[static_cast<size_t>(position)];
  }
  /// From the first block that is not finished to the last one that has begun.
  IndexRange block() const override;
  int32_t planned_steps() const override { return (num_blocks_ - first_block_) * options_.steps; }

 private:
  int32_t num_masked(int32_t block) const;
  /// Share of a block's positions behind the prompt that have their token; 1 for blocks of the prompt.
  double written_share(int32_t block) const;
  /// Whether a block commits at least one token in each step, even below the threshold.
  bool is_full(int32_t block) const;
  bool keeps_only() const;
  /// One past the last block of a pass that only computes K/V.
  int32_t kept_end() const;
  /// Whether the first masked position is sampled from a row before the open blocks, which is computed again.
  bool needs_row_before() const;

  void add_block(int32_t block, bool only_kv);
  void build_plan() override;
  void plan_keeping();
  void plan_denoising();
  void apply_denoised(std::span<const RowStatistics> drawn, StepReport& report);
  /// The candidates that a block commits.
  std::vector<Commit> chosen_in(int32_t block, bool is_full, std::span<const Commit> candidates,
                                std::span<const RowStatistics> rows) const;
  /// Updates which blocks are finished, and begins at most one block.
  void move_on();
  /// Position of the answer's first end token, even if masks precede it; empty: none is written.
  std::optional<int32_t> first_end() const;
  void finish_if_ended();

  BlockDiffusion options_;
  Pipeline pipeline_;
  BlockGrid grid_;
  int32_t first_block_;  // first block that is denoised
  int32_t num_blocks_;
  int32_t open_;                // the first block that has a mask
  int32_t begun_end_;           // one past the last block that has begun
  std::vector<int32_t> steps_;  // [num_blocks_] denoise passes that a block has had
};

}  // namespace lacuna
