// Canvas diffusion (DiffusionGemma): canvases of random tokens are denoised one after the other, each in
// passes that may change any of its tokens, and are then read causally, by the same weights, for what
// follows. docs/methods/canvas_diffusion.md has the rules and where they come from.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "decode/sequence_decoder.h"
#include "model/sampling.h"

namespace lacuna {

struct CanvasDiffusion {
  int64_t vocab_size = 0;
  std::vector<TokenId> end_ids;  ///< empty: nothing ends the answer
  int32_t gen_length = 256;
  int32_t max_positions = 0;
  int32_t canvas_length = 256;
  int32_t steps = 48;  ///< passes of a canvas at most
  bool draws = true;   ///< false: the candidates are the best tokens
  float first_temperature = 0.8F;
  float last_temperature = 0.4F;
  double entropy_bound = 0.1;          ///< nats
  int32_t stable_steps = 1;            ///< passes in a row whose best tokens are those of the pass before
  double stop_entropy = 0.005;         ///< nats
  float soft_embedding_slack = 1e-6F;  ///< see LogitRow
  uint64_t seed = 0;
};

/// The positions whose candidates are accepted: in ascending order of entropy, ties to the lowest position,
/// as long as the entropies of those before add up to the bound at most (EB-Sampler, arXiv 2505.24857).
///   entropies  nats     returns positions in ascending order; at least one of a canvas that is not empty
std::vector<int32_t> accept_by_entropy(std::span<const double> entropies, double bound);

class CanvasDiffusionDecoder final : public SequenceDecoder, public Constrainable {
 public:
  /// Options must be consistent (make_decoder checks them); the prompt is not empty.
  CanvasDiffusionDecoder(CanvasDiffusion options, std::vector<TokenId> prompt);

  int32_t num_cells() const override { return begin_of(num_canvases()); }
  /// No pass asks anything of the prompt but its K/V.
  ExactPrefix exact_prefix() const override { return {1, prompt_length_, prompt_length_, num_kept_}; }
  void skip_prefix(int32_t count) override { num_kept_ = count; }
  PassWork uncached_work() const override;
  std::optional<BaselineRequest> baseline_request() const override {
    return BaselineRequest{prompt_length_, options_.gen_length, answer_length()};
  }
  StepReport apply(const PassResult& result) override;
  std::vector<int32_t> sampled_positions() const override;
  bool commits_best_tokens() const override { return true; }
  /// Up to the canvas that is denoised, which shows the last pass's best tokens.
  Constrainable* constrainable() override { return this; }
  std::span<const TokenId> canvas() const override;
  int32_t num_final() const override;
  IndexRange block() const override { return {begin_of(canvas_), begin_of(canvas_ + 1)}; }
  int32_t planned_steps() const override { return num_canvases() * options_.steps; }

 private:
  int32_t begin_of(int32_t canvas) const;
  int32_t num_canvases() const;
  int32_t answer_length() const;
  /// Whether the next pass reads tokens and denoises nothing.
  bool reads_only() const;
  void start_canvas(int32_t canvas);
  TokenId random_token(int32_t step, int32_t position) const;
  float temperature() const;
  void build_plan() override;
  void add_denoising(StepPlan& plan) const;
  /// Takes the best tokens, and chooses what the next pass is fed.
  void take(std::span<const RowStatistics> drawn, StepReport& report);
  void finish_canvas();

  CanvasDiffusion options_;
  // tokens_: prompt, canvases that are done, and the best tokens of the current one
  std::vector<TokenId> inputs_;  // of the current canvas
  int32_t canvas_ = 0;
  int32_t step_ = 0;  // of the canvas
  int32_t num_stable_ = 0;
};

}  // namespace lacuna
