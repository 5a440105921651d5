// Block diffusion: blocks of positions are denoised one after the other. A row attends to its own block in
// both directions and to all earlier blocks, whose K/V are final once a pass has computed them from the final
// tokens. SDAR, Fast-dLLM v2 and LLaDA 2; docs/methods/block_diffusion.md has the rules and their sources.
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

/// LLaDA 2.1's token editing: a step may replace written tokens by more confident ones.
struct TokenEditing {
  double tau = 0.5;   ///< a replacement must be more probable than this
  int32_t most = 16;  ///< maximum steps of a block after its last mask is filled

  bool operator==(const TokenEditing&) const = default;
};

/// Defaults of LLaDA 2.2, which also inserts and deletes tokens.
inline constexpr TokenEditing kBlockEditing = {0, 16};

/// D2F's pipeline: a block begins before the previous one is finished.
struct Pipeline {
  double add = 0.1;    ///< written share of the last block at which the next one begins
  double full = 0.95;  ///< written share of the previous block from which on every step writes a token

  bool operator==(const Pipeline&) const = default;
};

inline constexpr int32_t kMaxDrafts = 32;

/// Settings besides the unmask rule.
struct BlockPolicy {
  bool caches_block = false;  ///< Fast-dLLM v2: compute only the sub-block once its first token is known
  std::optional<TokenEditing> edit;  ///< not with sub-blocks or shifted logits, nor SoftTokens
  SparsePolicy sparse;
  bool commits_sparsely = false;  ///< compute kept K/V with sparse attention
  int32_t sparse_after = 0;       ///< attention is dense from this step of a block on; 0: never
  /// Skips converged rows in later steps of the block; not with `edit` or unlocking.
  std::optional<SureLock> lock;
  /// Several blocks at once; needs an unmask rule with a threshold and none of the settings above.
  std::optional<Pipeline> pipeline;
  /// Free-Dave: a pass also computes at most so many drafts of the block's states after the next steps, so
  /// that it may take several steps; the text is unchanged. None of the settings above.
  std::optional<int32_t> drafts;
  /// FOCUS: each pass stops computing masks that will not be written soon; this many times as many as the
  /// block's steps have written on average stay. With none of the settings above.
  std::optional<double> focus;

  bool operator==(const BlockPolicy&) const = default;
};

struct BlockDiffusion : BlockPolicy {
  TokenId mask_id = 0;
  std::vector<TokenId> end_ids;  ///< empty: nothing ends the answer
  int32_t gen_length = 128;
  int32_t block_length = 4;
  int32_t sub_block_length = 4;  ///< positions denoised at a time; divides block_length
  int32_t steps = 4;             ///< steps per block, a multiple of its number of sub-blocks
  UnmaskPolicy unmask;
  SamplingRule sampling;
  uint64_t seed = 0;
  bool shifted_logits = false;  ///< row i - 1 samples position i; needs commits_apart
  bool commits_apart = false;  ///< compute kept K/V in separate passes, not with the next block's first step;
                               ///< needed for commits_sparsely
  // For PipelinedDecoder:
  bool whole_prompt = false;  ///< the prompt is one block, and the others begin after it
  int32_t max_positions = std::numeric_limits<int32_t>::max();  ///< the last block is cut here
};

/// Maximum blocks that one pass computes only for their K/V; more would only take more memory.
int32_t most_kept_blocks(int32_t block_length);
/// Work of a pass that denoises the last of `num_blocks` blocks without a cache: all rows of all blocks.
PassWork uncached_blocks_work(int32_t num_blocks, int32_t block_length, size_t logit_rows);

class BlockDiffusionDecoder final : public SequenceDecoder, public Constrainable {
 public:
  /// Options must be consistent (make_decoder checks them); with shifted logits the prompt is not empty.
  BlockDiffusionDecoder(BlockDiffusion options, std::vector<TokenId> prompt);

  int32_t num_cells() const override;
  ExactPrefix exact_prefix() const override;
  void skip_prefix(int32_t count) override { num_kept_ = count / options_.block_length; }
  PassWork uncached_work() const override;
  BackendNeeds needs() const override {
    return {.remembers_outputs = options_.lock.has_value(),
            .keeps_attention = keeps_attention(options_.sparse),
            .evicts_masks = options_.focus.has_value()};
  }
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
  /// The block that this pass denoises, or the first pass after those that only compute K/V.
  IndexRange block() const override { return {begin_of(block_), begin_of(block_ + 1)}; }
  int32_t planned_steps() const override {
    return (num_positions() / options_.block_length - first_block_) * options_.steps;
  }

 private:
  int32_t begin_of(int32_t block) const { return block * options_.block_length; }
  /// Positions of the canvas and the rest of its last block.
  int32_t num_positions() const { return static_cast<int32_t>(tokens_.size()); }
  bool is_fixed(int32_t position) const { return position < prompt_length_; }
  /// most_kept_blocks() of the options.
  int32_t most_kept() const;
  /// One past the last block of a pass that only computes K/V.
  int32_t kept_end() const { return std::min(block_, num_kept_ + most_kept()); }
  /// Whether the next pass only computes K/V of earlier blocks, before the block's next step.
  bool keeps_only() const;
  int32_t first_masked() const;
  /// The part of the block that is denoised now.
  IndexRange sub_block() const;
  /// The rule, if it is soft parallel decoding.
  const SoftTokens* soft() const { return std::get_if<SoftTokens>(&options_.unmask.count); }
  /// Whether written tokens of the block may change.
  bool revises() const { return options_.edit || soft() != nullptr; }
  /// Positions that the step samples: masked ones of the sub-block, or all that may change.
  std::vector<int32_t> drawn_positions() const;

  void build_plan() override;
  void plan_keeping();
  void plan_denoising();
  /// Whether the step computes all rows of the block that are not locked.
  bool computes_block() const;
  /// Positions whose rows the step computes, ascending.
  std::vector<int32_t> denoised_rows() const;
  /// With `focus`: what stays of the step's group, and what it sees.
  void plan_eviction(std::span<const int32_t> rows);
  /// With `focus`, after a pass over these rows.
  void note_read(std::span<const int32_t> rows, std::span<const RowStatistics> drawn);
  void add_group(std::span<const int32_t> positions, int32_t prefix, const SparseAttention& sparse,
                 bool only_kv);
  void apply_kept(std::span<const RowStatistics> drawn, StepReport& report);
  void apply_denoised(std::span<const RowStatistics> drawn, StepReport& report);
  /// Whether a block without masks is done.
  ///   changed  whether the step changed a token of it
  bool is_done(bool changed, std::span<const RowStatistics> drawn) const;
  /// One step of the block: writes what the rule chooses among drawn_positions() and returns it.
  std::vector<Commit> take_step(std::span<const RowStatistics> drawn, StepReport& report);
  /// Sets drafts_ for the steps after one that has written `written` of `candidates`.
  void draft_steps(std::vector<Commit> candidates, std::vector<Commit> written);
  /// Maximum drafts of a pass: each state has masks, but fewer than the state before.
  int32_t most_drafts() const {
    return std::clamp(options_.drafts.value_or(0), 0, std::max(options_.block_length - 2, 0));
  }
  /// Adds the block's states after the drafted steps to the plan.
  void plan_drafts();
  /// Adds the sample of a position that this row of the plan predicts, with the noise of a step of the block.
  void add_sample(int32_t row, int32_t position, int32_t step);
  void write(const Commit& commit, StepReport& report);
  void start_block(int32_t block);
  void restart_lock();
  /// Adds to the plan the logits that the lock needs; `first_row` is the plan's row for positions[0].
  void watch_rows(std::span<const int32_t> positions, int32_t first_row);
  void finish_if_ended();

  BlockDiffusion options_;
  int32_t first_block_;  // first block that is denoised
  int32_t block_ = 0;
  int32_t step_ = 0;            // step within the block
  int32_t edit_steps_ = 0;      // edit steps since the block's last mask was filled
  BlockProgress progress_;      // progress of the sub-block
  std::vector<float> weights_;  // [block_length] of the block's written tokens; empty without SoftTokens
  SparseSchedule sparse_;
  SparseAttention attention_;  // attention of the planned step
  std::optional<RowLock> lock_;
  std::optional<Canvas> locked_block_;  // with a lock: copy of the block, from position 0
  bool may_lock_ = false;               // the pending follow-up may lock rows
  // With `focus`, of this block:
  std::vector<bool> read_;                   // [block_length] tokens that a pass has read
  int32_t unread_ = 0;                       // first position whose K/V no pass has computed in all layers
  int32_t written_ = 0, writing_steps_ = 0;  // tokens written, and the steps that wrote them
  // For each of the block's next steps what it writes if its pass predicts what the last one has predicted.
  std::vector<std::vector<Commit>> drafts_;
};

}  // namespace lacuna
