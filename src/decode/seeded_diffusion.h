// Block diffusion after a causal context (Nemotron-Labs-Diffusion): blocks are denoised in both directions
// and then computed causally by the same weights. The causal pass over a block samples the first token of the
// next one, its seed, or, in self-speculation, decides how much of the block is accepted.
// docs/methods/seeded_diffusion.md has the rules and their sources.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "decode/sequence_decoder.h"
#include "decode/unmask.h"
#include "model/sampling.h"

namespace lacuna {

struct SeededDiffusion {
  TokenId mask_id = 0;
  std::vector<TokenId> end_ids;  ///< empty: nothing ends the answer
  int32_t gen_length = 128;
  int32_t max_positions = 0;
  int32_t block_length = 32;  ///< positions of a block, the seed included
  int32_t steps = 32;         ///< steps per block, for rules that split its masks
  UnmaskPolicy unmask;
  SamplingRule sampling;  ///< sampling of seeds and of tokens of the causal pass
  SamplingRule drafting;  ///< sampling of masked positions
  bool verifies = false;  ///< self-speculation: accept only tokens that the causal pass samples as well
  uint64_t seed = 0;
};

class SeededDiffusionDecoder final : public SequenceDecoder, public Constrainable {
 public:
  /// Options must be consistent (make_decoder checks them); the prompt is not empty.
  SeededDiffusionDecoder(SeededDiffusion options, std::vector<TokenId> prompt);

  /// The last token of the prompt is always computed: its row samples the first seed.
  ExactPrefix exact_prefix() const override { return {1, prompt_length_ - 1, prompt_length_, num_kept_}; }
  void skip_prefix(int32_t count) override { num_kept_ = count; }
  PassWork uncached_work() const override;
  StepReport apply(const PassResult& result) override;
  std::vector<int32_t> sampled_positions() const override;
  std::vector<TokenId> judged_drafts() const override;
  bool accepts(const RowStatistics& judge, TokenId draft) const override { return judge.token == draft; }
  TokenId held_token(int32_t position) const override {
    const bool is_held = denoises() ? !is_masked(position) : position < num_written_;
    return is_held ? tokens_[static_cast<size_t>(position)] : -1;
  }
  Constrainable* constrainable() override { return this; }
  int32_t num_final() const override { return std::min(num_written_, length_) - prompt_length_; }
  IndexRange block() const override { return block_; }
  int32_t planned_steps() const override;

 private:
  bool is_end(int32_t position) const;
  /// Whether the next pass denoises; otherwise it is causal.
  bool denoises() const { return num_read_ == num_kept_; }
  /// One past the last token of the next causal pass.
  int32_t read_end() const;
  /// Whether the causal pass judges the block's drafts.
  bool judges() const { return options_.verifies && block_.size() > 0; }
  std::vector<int32_t> masked_positions() const;

  void build_plan() override;
  void plan_reading();
  void plan_denoising();
  void apply_read(std::span<const RowStatistics> drawn, StepReport& report);
  void apply_denoised(std::span<const RowStatistics> drawn, StepReport& report);
  /// Writes the causal pass's own tokens up to and including the first that differs from the block.
  void verify(std::span<const RowStatistics> drawn, StepReport& report);
  void write(const Commit& commit, StepReport& report);
  /// Starts a block with the token at `begin` as its seed, unless the answer ends there.
  void start_block(int32_t begin);
  /// Whether no mask is left before the end of the block or of the answer.
  bool block_is_done() const;
  void finish_block();
  /// Makes the tokens before `end` final. Returns whether the answer ends there or before.
  bool ends_before(int32_t end);

  SeededDiffusion options_;
  IndexRange block_;        // positions being denoised or judged; empty while the prompt is read
  int32_t num_written_;     // number of leading tokens that are final
  int32_t num_read_;        // tokens that the causal context must hold
  int32_t num_blocks_ = 0;  // blocks begun so far
  BlockProgress progress_;
};

}  // namespace lacuna
