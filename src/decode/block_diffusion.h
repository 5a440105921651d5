// Block diffusion: blocks of positions are denoised one after the other. A row sees its own block in both
// directions and all earlier blocks, whose K/V never change once the pass that read their final tokens has
// written them. SDAR, Fast-dLLM v2 and LLaDA 2; docs/methods/block_diffusion.md has the rules and where they
// come from.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "decode/row_lock.h"
#include "decode/sequence_decoder.h"
#include "decode/sparse_policy.h"
#include "decode/surelock.h"
#include "decode/unmask.h"
#include "model/sampling.h"

namespace lacuna {

/// LLaDA 2.1's token editing: unmasked tokens give way to others that the model is sure of.
struct TokenEditing {
  double tau = 0.5;   ///< another token must be likelier than this
  int32_t most = 16;  ///< steps of a block after its last mask is gone

  bool operator==(const TokenEditing&) const = default;
};

/// LLaDA 2.2's, whose blocks are edited by insertions and deletions as well.
inline constexpr TokenEditing kBlockEditing = {0, 16};

/// D2F's pipeline: blocks begin before the block in front of them is done.
struct Pipeline {
  double add = 0.1;  ///< share of the last block that is written when the next one begins; 1: all of it
  double full =
      0.95;  ///< share of the block before that is written when a block writes a token in every step

  bool operator==(const Pipeline&) const = default;
};

/// Choices of a run, besides its unmask rule.
struct BlockPolicy {
  bool caches_block = false;  ///< Fast-dLLM v2: compute the sub-block alone where its first token is known
  std::optional<TokenEditing> edit;  ///< not with sub-blocks or shifted logits
  SparsePolicy sparse;
  bool commits_sparsely = false;  ///< K/V that are kept come from sparse attention
  int32_t sparse_after = 0;       ///< steps of a block from this one on attend to all; 0: none do
  /// Leaves rows of the block out of its later steps; without edit, and without unlocking.
  std::optional<SureLock> lock;
  /// Several blocks at once, by a rule with a threshold; with none of the above.
  std::optional<Pipeline> pipeline;

  bool operator==(const BlockPolicy&) const = default;
};

struct BlockDiffusion : BlockPolicy {
  TokenId mask_id = 0;
  std::vector<TokenId> end_ids;  ///< empty: nothing ends the answer
  int32_t gen_length = 128;
  int32_t block_length = 4;
  int32_t sub_block_length = 4;  ///< divides block_length; positions that are denoised at a time
  int32_t steps = 4;             ///< of a block, a multiple of its sub-blocks
  UnmaskPolicy unmask;
  SamplingRule sampling;
  uint64_t seed = 0;
  bool shifted_logits = false;  ///< row i - 1 samples position i; commits_apart
  bool commits_apart = false;  ///< in passes of their own, not with the next block's first step; needed where
                               ///< commits_sparsely
  // PipelinedDecoder's:
  bool whole_prompt = false;  ///< the prompt is one block, and the others begin after it
  int32_t max_positions = std::numeric_limits<int32_t>::max();  ///< a last block behind them is shorter
};

/// Blocks that one pass computes for their K/V alone, at most: more would only take more memory.
int32_t most_kept_blocks(int32_t block_length);
/// Work of a pass over the last of `num_blocks` blocks without a cache: every row of all of them.
PassWork uncached_blocks_work(int32_t num_blocks, int32_t block_length, size_t logit_rows);

class BlockDiffusionDecoder final : public SequenceDecoder, public Constrainable {
 public:
  /// Options must be consistent (make_decoder checks them); with shifted logits the prompt is not empty.
  BlockDiffusionDecoder(BlockDiffusion options, std::vector<TokenId> prompt);

  ExactPrefix exact_prefix() const override;
  void skip_prefix(int32_t count) override { num_kept_ = count / options_.block_length; }
  PassWork uncached_work() const override;
  bool remembers_outputs() const override { return options_.lock.has_value(); }
  StepReport apply(const PassResult& result) override;
  FollowUp follow_up() const override;
  void apply_follow_up(const FollowUpResult& result, StepReport& report) override;
  const DriftEstimate* drift_estimate() const override;
  std::vector<int32_t> sampled_positions() const override;
  Constrainable* constrainable() override { return this; }

  int32_t num_final() const override;
  TokenId held_token(int32_t position) const override {
    return is_masked(position) ? -1 : tokens_[static_cast<size_t>(position)];
  }
  /// That is denoised, or for which others are being kept.
  IndexRange block() const override { return {begin_of(block_), begin_of(block_ + 1)}; }
  int32_t planned_steps() const override {
    return (num_cells() / options_.block_length - first_block_) * options_.steps;
  }

 private:
  int32_t begin_of(int32_t block) const { return block * options_.block_length; }
  bool is_fixed(int32_t position) const { return position < prompt_length_; }
  /// Blocks that one pass computes for their K/V at most.
  int32_t most_kept() const;
  /// One past the last block that a pass which only keeps K/V computes.
  int32_t kept_end() const { return std::min(block_, num_kept_ + most_kept()); }
  /// Whether what lies before the block has to be computed and kept before its next step.
  bool keeps_only() const;
  int32_t first_masked() const;
  /// The part of the block that is denoised now.
  IndexRange sub_block() const;
  /// Positions that the step samples: masked ones of the sub-block, or all that may be edited.
  std::vector<int32_t> drawn_positions() const;

  void build_plan() override;
  void plan_keeping();
  void plan_denoising();
  /// Whether the step computes all rows of the block that are not locked.
  bool computes_block() const;
  /// Positions whose rows the step computes, ascending.
  std::vector<int32_t> denoised_rows() const;
  void add_group(std::span<const int32_t> positions, int32_t prefix, const SparseAttention& sparse,
                 bool only_kv);
  void apply_kept(std::span<const RowStatistics> drawn, StepReport& report);
  void apply_denoised(std::span<const RowStatistics> drawn, StepReport& report);
  void write(const Commit& commit, StepReport& report);
  void start_block(int32_t block);
  void restart_lock();
  /// Asks for what the lock has to know about the planned step, whose first row is `first_row`.
  void watch_rows(std::span<const int32_t> positions, int32_t first_row);
  void finish_if_ended();

  BlockDiffusion options_;
  int32_t first_block_;  // the first that is denoised
  int32_t block_ = 0;
  int32_t step_ = 0;        // of the block
  int32_t edit_steps_ = 0;  // edit steps since the block's last mask was filled
  BlockProgress progress_;  // of the sub-block
  SparseSchedule sparse_;
  SparseAttention attention_;  // of the planned step
  std::optional<RowLock> lock_;
  std::optional<Canvas> locked_block_;  // with a lock: the block, from position 0 on
  bool may_lock_ = false;               // after the pass whose follow-up is due
};

}  // namespace lacuna
