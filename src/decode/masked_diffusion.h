// Masked diffusion as LLaDA and Dream sample it: a pass predicts every masked position, and a policy chooses
// which samples are committed. canvas_pass.h decides which rows a pass computes.
//
// With a rule that remasks, a pass also predicts written positions, only for their confidence, or verifies
// their tokens. With a rule that measures drift, a step commits after a follow-up has measured how far the
// candidates' posteriors moved.
//
// Sources: LLaDA's generate.py (arXiv 2502.09992), Dream's generation_utils.py (arXiv 2508.15487),
// Fast-dLLM's parallel decoding (arXiv 2505.22618). Decisions where they leave a choice: ties go to the
// lowest position; steps that would commit nothing are skipped; several positions of one pass are sampled
// independently.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "decode/canvas_pass.h"
#include "decode/decoder.h"
#include "decode/rollout_cache.h"
#include "decode/unmask.h"
#include "decode/unmask_memory.h"

namespace lacuna {

struct MaskedDiffusion {
  TokenId mask_id = 0;
  bool shifted_logits = false;   ///< Dream: row p - 1 predicts position p, row 0 also position 0
  std::vector<TokenId> end_ids;  ///< tokens that end an answer, for stop_reason and eos_exit

  int32_t gen_length = 128;
  int32_t block_length = 128;  ///< divides gen_length; blocks are finished left to right
  int32_t steps = 128;         ///< steps of the run, a multiple of the number of blocks
  UnmaskPolicy unmask;
  std::vector<TokenId> delimiters;  ///< tokens at which AdaptiveBlock ends blocks
  CanvasPassOptions pass;
  /// Stop after the block that makes the text before an end token final; MultiBlock: let the first end token
  /// of the answer end it.
  bool eos_exit = false;
  uint64_t seed = 0;
};

class MaskedDiffusionDecoder final : public Decoder, public Constrainable, public Measurements {
 public:
  /// Options must be consistent (make_decoder checks them). A mask token within the prompt is a gap that is
  /// filled with the first block.
  ///   answer  see Canvas
  MaskedDiffusionDecoder(MaskedDiffusion options, std::vector<TokenId> prompt,
                         std::span<const TokenId> answer = {});

  int32_t num_sequences() const override { return pass_.num_sequences(); }
  int32_t num_cells() const override { return pass_.num_cells(); }
  BackendNeeds needs() const override {
    return {.remembers_outputs = pass_.remembers_outputs() || options_.unmask.traits().measures_drift,
            .wants_rollout = rollout_.has_value(),
            .kept_layers = pass_.kept_layers()};
  }
  bool done() const override { return done_; }
  const StepPlan& plan() override;
  PassWork uncached_work() const override { return pass_.uncached_work(canvas_); }
  ExactPrefix exact_prefix() const override { return pass_.exact_prefix(); }
  void skip_prefix(int32_t count) override { pass_.skip_prefix(count); }
  std::optional<BaselineRequest> baseline_request() const override {
    return canvas_.baseline_request(num_sequences());
  }
  StepReport apply(const PassResult& result) override;
  FollowUp follow_up() const override {
    if (!probes_.empty()) return {.probes = probes_};
    return {.probes = pass_.drift_probes()};
  }
  void apply_follow_up(const FollowUpResult& result, StepReport& report) override;
  std::vector<int32_t> sampled_positions() const override;
  Constrainable* constrainable() override { return this; }
  const Measurements& measurements() const override { return *this; }
  std::span<const TokenId> canvas() const override { return canvas_.tokens(); }
  int32_t prompt_length() const override { return canvas_.prompt_length(); }
  int32_t num_final() const override;
  bool write_given(std::span<const Commit> tokens) override {
    for (const Commit& each : tokens) canvas_.commit(each);
    find_next_step();
    return true;
  }
  TokenId held_token(int32_t position) const override {
    return canvas_.is_masked(position) ? -1 : canvas_.tokens()[static_cast<size_t>(position)];
  }
  StopReason stop_reason() const override;
  IndexRange block() const override { return {block_.begin, block_.end}; }
  const DriftEstimate* drift_estimate() const override { return pass_.drift_estimate(); }

 private:
  int32_t num_blocks() const { return options_.gen_length / options_.block_length; }

  /// Starts the block after the present one.
  void start_block(int32_t index);
  void finish_block();
  /// Moves to the next step that commits something; sets done_ when there is none.
  void find_next_step();
  /// One past the last position that this step may commit, for rules that do not remask; for a block whose
  /// end is not known yet, one past the last position that it may have.
  int32_t open_end() const;
  /// Where a delimiter may end the block.
  IndexRange delimiter_window() const;
  /// Masked positions before `end` that this step or a later one may commit, ascending.
  ///   end  open_end(): those that this step may commit
  std::vector<int32_t> candidate_positions(int32_t end) const;
  /// For d2Cache: the masks that the next pass predicts.
  ///   num_candidates  those that it may commit
  std::vector<int32_t> predicted_masks(size_t num_candidates);
  RngStream step_noise(uint64_t purpose) const;
  /// BlockProgress::masked_share of the next step.
  double masked_share() const;
  /// Positions of the block that this step's pass verifies, ascending.
  std::vector<int32_t> verified_positions() const;
  /// Writes the first end token to all positions behind it.
  void end_answer(std::vector<Commit>& committed);
  /// Commits samples and remasks positions by the rule, and goes to the next step.
  ///   drawn   one sample for each of the pass's logits
  ///   drifts  of the candidates' posteriors, where the rule measures them
  ///   rollout  of the pass, for d2Cache
  void finish_step(std::span<const RowStatistics> drawn, std::span<const Drift> drifts, StepReport& report,
                   std::span<const double> rollout = {});
  /// The candidates that this step writes.
  std::vector<Commit> choose_commits(std::span<const Commit> candidates, std::span<const RowStatistics> drawn,
                                     std::span<const Drift> drifts);
  /// The written positions that the step masks again, after its commits.
  ///   verdicts  samples of the positions that the pass has verified
  std::vector<int32_t> revoked_positions(size_t num_committed, std::span<const RowStatistics> verdicts);
  /// Masks the candidates that are not kept, and returns the kept ones that are to be written. Both lists are
  /// in ascending order of positions.
  std::vector<Commit> remask(std::span<const Commit> candidates, std::span<const Commit> kept);

  MaskedDiffusion options_;
  Canvas canvas_;
  CanvasPass pass_;
  Block block_;
  int32_t finished_steps_ = 0;  // steps of the finished blocks
  BlockProgress progress_;
  std::vector<int32_t> open_positions_;   // for rules that remask: positions masked when the block began, for
                                          // Saber also those of earlier blocks
  std::vector<int32_t> written_masks_;    // ascending; the written token is the mask (writes_masks)
  std::vector<int32_t> drawn_positions_;  // of the next pass, ascending
  std::vector<int32_t> verified_;         // positions that the next pass verifies, ascending
  std::optional<StablePasses> calm_;
  std::optional<Verdicts> verdicts_;
  std::optional<ConfidenceTrace> trace_;
  std::optional<CreditLedger> credits_;
  std::optional<SpanCycle> cycle_;
  std::optional<SlidingEnd> sliding_;
  std::optional<BegunBlocks> begun_;  // the answer is one block_, then
  std::optional<RolloutCache> rollout_;
  std::vector<int32_t> compared_;     // positions whose leads Prophet averages, ascending
  std::vector<DriftProbe> probes_;    // of the candidates, until their drift is known
  std::vector<RowStatistics> drawn_;  // samples of the pass, meanwhile
  bool is_planned_ = false;
  bool done_ = false;
};

}  // namespace lacuna
