// Masked diffusion as LLaDA and Dream sample it: the whole canvas goes through the model in every step, and a
// policy chooses which masked positions keep what was drawn for them.
//
// Sources: LLaDA's generate.py (arXiv 2502.09992), Dream's generation_utils.py (arXiv 2508.15487),
// Fast-dLLM's parallel decoding (arXiv 2505.22618). Decisions where they leave a choice: ties go to the
// lowest position; steps that would commit nothing are skipped; several positions of one pass are drawn
// independently.
#pragma once

#include <cstdint>
#include <vector>

#include "decode/decoder.h"
#include "decode/unmask.h"
#include "model/sampling.h"

namespace lacuna {

struct MaskedDiffusion {
  TokenId mask_id = 0;
  bool shifted_logits = false;   ///< Dream: row p - 1 predicts position p, row 0 also position 0
  std::vector<TokenId> end_ids;  ///< tokens that end an answer, for stop_reason and early_exit

  int32_t gen_length = 128;
  int32_t block_length = 128;  ///< divides gen_length; blocks are finished left to right
  int32_t steps = 128;         ///< of the whole run, a multiple of the number of blocks
  UnmaskPolicy unmask;
  SamplingRule sampling;
  float cfg_scale = 0;      ///< classifier-free guidance; 0: none
  bool early_exit = false;  ///< stop after the block that makes the text before an end token final
  uint64_t seed = 0;
};

class MaskedDiffusionDecoder final : public Decoder {
 public:
  /// Options must be consistent (make_decoder checks them). A mask token within the prompt is a gap that is
  /// filled with the first block.
  MaskedDiffusionDecoder(MaskedDiffusion options, std::vector<TokenId> prompt);

  int32_t num_sequences() const override { return options_.cfg_scale > 0 ? 2 : 1; }
  int32_t num_cells() const override { return static_cast<int32_t>(canvas_.size()); }
  bool done() const override { return done_; }
  const StepPlan& plan() override { return plan_; }
  StepReport apply(std::span<const RowStatistics> drawn) override;
  StepCost baseline_cost(const ModelConfig& config) override { return cost(config, plan_); }
  std::span<const TokenId> canvas() const override { return canvas_; }
  int32_t prompt_length() const override { return prompt_length_; }
  StopReason stop_reason() const override;

 private:
  int32_t num_blocks() const { return options_.gen_length / options_.block_length; }
  int32_t block_begin() const { return prompt_length_ + block_ * options_.block_length; }
  int32_t block_end() const { return block_begin() + options_.block_length; }
  bool is_masked(int32_t position) const {
    return canvas_[static_cast<size_t>(position)] == options_.mask_id;
  }
  int32_t count_masked(int32_t begin, int32_t end) const;
  /// The first end token of the answer; num_cells() if there is none.
  int32_t answer_end() const;
  /// Whether no later step can change the tokens before an end token.
  bool answer_is_final() const;

  void start_block();
  void finish_block();
  /// Moves to the next step that commits something and plans it; sets done_ when there is none.
  void plan_next_step();
  /// Masked positions that this step may commit, ascending.
  std::vector<int32_t> candidate_positions() const;
  RngStream step_noise(uint64_t purpose) const;
  void build_plan(std::span<const int32_t> drawn_positions);

  MaskedDiffusion options_;
  std::vector<TokenId> canvas_;
  std::vector<bool> given_;  // positions that the prompt fixes
  int32_t prompt_length_;
  int32_t block_ = 0;
  int32_t finished_steps_ = 0;  // of the blocks before this one
  BlockProgress progress_;
  std::vector<int32_t> drawn_positions_;  // of the current plan, ascending
  StepPlan plan_;
  bool done_ = false;
};

}  // namespace lacuna
