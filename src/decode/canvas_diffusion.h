// Canvas diffusion (DiffusionGemma, LFM2.5-Diffusion): canvases of random tokens are denoised one after the
// other; a pass may change any token of its canvas. The same weights then compute a finished canvas causally,
// as context of the next one. docs/methods/canvas_diffusion.md has the rules and their sources.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "decode/sequence_decoder.h"
#include "model/sampling.h"

namespace lacuna {

/// Steps that sample a canvas from the posterior of uniform noise, and a last pass that reads it out, in
/// place of the choice by entropy (LFM2.5-Diffusion; docs/methods/canvas_diffusion.md, section 9).
struct AncestralSteps {
  int32_t count = 8;           ///< without the last pass
  double exponent = 0.3;       ///< of the times; below 1: more steps at low noise
  double readout_noise = 0.7;  ///< least noise level of the last pass

  /// Signal level before step `index`; `count`: after the last step.
  double signal(int32_t index) const;
};

/// RowGroup::noise_level at a signal level.
float noise_level(double signal);

struct CanvasDiffusion {
  int64_t vocab_size = 0;          ///< ids that are written: those below
  std::vector<TokenId> forbidden;  ///< other ids
  std::optional<AncestralSteps> ancestral;
  std::vector<TokenId> end_ids;  ///< empty: nothing ends the answer
  int32_t gen_length = 256;
  int32_t max_positions = 0;
  int32_t canvas_length = 256;
  int32_t steps = 48;  ///< maximum passes per canvas; AncestralSteps: one more than steps
  bool draws = true;   ///< sample the candidates; false: take the best tokens
  float first_temperature = 0.8F;
  float last_temperature = 0.4F;
  double entropy_bound = 0.1;          ///< nats
  int32_t stable_steps = 1;            ///< passes in a row with unchanged best tokens to end a canvas
  double stop_entropy = 0.005;         ///< nats
  float soft_embedding_slack = 1e-6F;  ///< see LogitRow
  uint64_t seed = 0;
};

/// The positions whose candidates are accepted: in ascending order of entropy (ties: lowest position first),
/// while the preceding entropies sum to at most `bound` (EB-Sampler, arXiv 2505.24857).
///   entropies  in nats     returns ascending positions, at least one if `entropies` is not empty
std::vector<int32_t> accept_by_entropy(std::span<const double> entropies, double bound);

class CanvasDiffusionDecoder final : public SequenceDecoder, public Constrainable {
 public:
  /// Options must be consistent (make_decoder checks them); the prompt is not empty.
  CanvasDiffusionDecoder(CanvasDiffusion options, std::vector<TokenId> prompt);

  int32_t num_cells() const override { return begin_of(num_canvases()); }
  /// Passes need only K/V of the prompt, not its logits.
  ExactPrefix exact_prefix() const override { return {1, prompt_length_, prompt_length_, num_kept_}; }
  void skip_prefix(int32_t count) override { num_kept_ = count; }
  PassWork uncached_work() const override;
  std::optional<BaselineRequest> baseline_request() const override {
    return BaselineRequest{prompt_length_, options_.gen_length, answer_length()};
  }
  StepReport apply(const PassResult& result) override;
  std::vector<int32_t> sampled_positions() const override;
  bool commits_best_tokens() const override { return true; }
  Constrainable* constrainable() override { return this; }
  /// Ends with the current canvas, which shows the last pass's best tokens, or those that it has sampled.
  std::span<const TokenId> canvas() const override;
  int32_t num_final() const override;
  IndexRange block() const override { return {begin_of(canvas_), begin_of(canvas_ + 1)}; }
  int32_t planned_steps() const override { return num_canvases() * options_.steps; }

 private:
  int32_t begin_of(int32_t canvas) const;
  int32_t num_canvases() const;
  int32_t answer_length() const;
  /// Whether the next pass only computes K/V of earlier tokens.
  bool reads_only() const;
  void start_canvas(int32_t canvas);
  TokenId random_token(int32_t step, int32_t position) const;
  float temperature() const;
  /// Signal levels before and after this pass's step.
  std::pair<double, double> signals() const;
  void build_plan() override;
  void add_denoising(StepPlan& plan) const;
  /// Writes the best tokens, and chooses the inputs of the next pass.
  void take(std::span<const RowStatistics> drawn, StepReport& report);
  /// AncestralSteps: samples each token from its posterior.
  void step_back(std::span<const RowStatistics> drawn, StepReport& report);
  TokenId posterior_token(const RowStatistics& drawn, int32_t position, TokenId held) const;
  void finish_canvas(StepReport& report);

  CanvasDiffusion options_;
  // tokens_: prompt, canvases that are done, and the best tokens of the current one
  std::vector<TokenId> inputs_;  // input tokens of the current canvas
  int32_t canvas_ = 0;
  int32_t step_ = 0;  // within the canvas
  int32_t num_stable_ = 0;
};

}  // namespace lacuna
