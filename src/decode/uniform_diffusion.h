// Diffusion with interpolating noise and Uniform-Cache: blocks of noise are denoised one after the other
// (GIDD), or all that follows the prompt at once (Sumi), and any token of a block may change at any step.
// Every rule, and every decision where the sources leave a choice, is in docs/methods/uniform_diffusion.md;
// comments below cite its sections.
//
// Sources: GIDD (von Rütte et al. 2025, arXiv 2503.04482), its scaling study and code (arXiv 2512.10858),
// Sumi (arXiv 2606.19005), and Uniform-Cache (Barry 2026, Algorithm 1).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "decode/decoder.h"
#include "decode/noise_schedule.h"
#include "model/sampling.h"

namespace lacuna {

enum class UniformSampler : uint8_t {
  kAdaptive,   ///< the positions where the model most prefers another token
  kAncestral,  ///< every position is sampled independently from the posterior
  kGreedy,     ///< every position takes its most likely token
  kThreshold,  ///< every position where the model prefers another token by more than a threshold
};

/// kThreshold: which tokens a step changes, and when a block ends (section 3).
struct PreferenceThreshold {
  double tau = 0.9;   ///< a token changes if the best one is more probable by more than this, (0, 1]
  int32_t least = 1;  ///< minimum changes of a step while the model prefers other tokens

  bool operator==(const PreferenceThreshold&) const = default;
};

enum class UniformCacheKind : uint8_t { kNone, kPrefix, kUniform };

/// At a block's first step, compute only the blocks at the boundary (section 4). Approximate.
struct BoundaryRefresh {
  int32_t blocks = 2;      ///< the last finished block and those after it; at least 2
  int32_t full_every = 8;  ///< blocks between full passes

  bool operator==(const BoundaryRefresh&) const = default;
};

/// Recomputes the pages whose K/V drift fastest (section 4). Approximate.
struct DriftRefresh {
  double tau = 1e-2;    ///< expected 1 - cosine above which a page is computed
  int32_t page = 16;    ///< positions
  int32_t budget = 64;  ///< positions per step

  bool operator==(const DriftRefresh&) const = default;
};

/// Self-correction of a finished answer (section 5).
struct SelfCorrection {
  int32_t most = 128;  ///< iterations
  float temperature = 0.1F;
  int32_t patience = 32;   ///< iterations without a better accuracy
  int32_t tokens = 1;      ///< changed per iteration
  int32_t full_every = 1;  ///< iterations between full passes; above 1: approximate

  bool operator==(const SelfCorrection&) const = default;
};

/// Settings of a run.
struct UniformPolicy {
  int32_t min_length = 0;   ///< first positions of the answer, which get no end token
  bool ignore_eos = false;  ///< continue after an end token
  UniformSampler sampler = UniformSampler::kAdaptive;
  int32_t tokens_per_step = 3;    ///< kAdaptive: at most this many tokens change
  PreferenceThreshold threshold;  ///< kThreshold
  NoiseCurve schedule = NoiseCurve::kCosine;
  UniformCacheKind cache = UniformCacheKind::kNone;
  int32_t refresh = 4;  ///< kUniform: every so many steps, also compute the next block (or the whole canvas);
                        ///< 0: never
  std::optional<BoundaryRefresh> boundary;  ///< kUniform
  std::optional<DriftRefresh> drift;        ///< kUniform, instead of `refresh`
  bool leaves_at_fixed_point = true;  ///< end an unchanging block; exact but for kThreshold with kUniform
  bool whole_last_layer = false;      ///< compute it also for rows whose output is not used
  std::optional<SelfCorrection> self_correct;

  bool operator==(const UniformPolicy&) const = default;
};

struct UniformDiffusion : UniformPolicy {
  NoiseProcess noise;
  int64_t vocab_size = 0;
  TokenId mask_id = -1;  ///< -1: the model has none
  std::vector<TokenId> end_ids;
  std::vector<TokenId> noise_excludes;  ///< tokens that the first noise never shows
  std::vector<TokenId> closing;         ///< tokens fixed right after the answer, for a whole canvas

  int32_t context = 2048;  ///< positions: prompt, gen_length, filler
  int32_t gen_length = 128;
  int32_t block_length = 32;  ///< gen_length if the whole canvas is denoised
  int32_t steps = 32;         ///< steps per block
  SamplingRule sampling;      ///< temperature, top_p, top_k of the tokens that are sampled
  uint64_t seed = 0;
};

class UniformDiffusionDecoder final : public Decoder, public Constrainable, public Measurements {
 public:
  /// Options must be consistent (make_decoder checks them); the prompt is not empty.
  UniformDiffusionDecoder(UniformDiffusion options, std::vector<TokenId> prompt);

  int32_t num_sequences() const override { return 1; }
  int32_t num_cells() const override { return options_.context; }
  bool done() const override { return phase_ == Phase::kDone; }
  const StepPlan& plan() override;
  PassWork uncached_work() const override;
  std::optional<BaselineRequest> baseline_request() const override;
  /// The plan of the current step without a cache.
  std::optional<StepPlan> uncached_plan() const override;
  StepReport apply(const PassResult& result) override;
  FollowUp follow_up() const override { return {.logits = further_}; }
  void apply_follow_up(const FollowUpResult& result, StepReport& report) override;
  std::vector<int32_t> sampled_positions() const override;
  void finish_blocks_with(FinishBlock finish) override { finish_with_ = std::move(finish); }
  Constrainable* constrainable() override { return this; }
  const Measurements& measurements() const override { return *this; }
  std::span<const TokenId> canvas() const override;
  int32_t prompt_length() const override { return prompt_length_; }
  StopReason stop_reason() const override;

  /// Prompt, answer and filler.
  std::span<const TokenId> context() const { return tokens_; }
  int32_t num_final() const override;
  /// The whole answer while it is corrected.
  IndexRange block() const override;
  /// 1-based step within the block.
  int32_t step() const { return step_; }

 private:
  enum class Phase : uint8_t { kDenoise, kCorrect, kDone };

  /// Contiguous positions that a pass computes.
  struct Part {
    IndexRange positions;
    bool clean = false;  // sees clean cells only
    bool only_kv = true;
  };

  bool takes_best() const { return options_.sampling.temperature == 0; }
  bool denoises_all() const { return options_.noise.whole_canvas.has_value(); }
  /// Whether the position holds a token that never changes, after the answer.
  bool is_closing(int32_t position) const;
  int32_t num_blocks() const;
  int32_t global_step() const { return block_ * options_.steps + step_; }
  bool refreshes_next_block() const;
  bool repeats_last_step() const;
  /// Parts of the next pass, ascending. `cached`: by the cache policy; otherwise all rows.
  std::vector<Part> parts(bool cached) const;
  std::vector<Part> parts_of_whole_canvas(bool cached) const;
  void add_next_blocks(int32_t count, std::vector<Part>& parts) const;
  void add_drifting_pages(std::vector<Part>& parts) const;
  /// Updates each computed position's rate from its mean drift over layers, keys and values.
  void record_movements(std::span<const float> kv_drift);
  void add_changed_blocks(std::vector<Part>& parts) const;
  void build_plan(bool cached, StepPlan& plan) const;
  LogitRow logit_row(int32_t row, int32_t position) const;
  void add_rules(StepPlan& plan) const;
  RngStream noise_at(uint64_t purpose, int32_t position) const;

  /// A position where the model prefers another token to one that the noise may have written.
  struct Candidate {
    double prior;   // pi of the current token, at the noise level before the step
    double score;   // probability of the best token minus that of the current one, > 0
    Commit commit;  // of the most likely token
  };

  /// Candidates in ascending order of position.
  std::vector<Candidate> candidates(std::span<const RowStatistics> drawn) const;
  /// Commits of candidates in descending order of score while takes(index, score); returned by position.
  template <typename Takes>
  static std::vector<Commit> take_largest(std::vector<Candidate> candidates, Takes&& takes);
  std::vector<Commit> choose_adaptive(std::span<const RowStatistics> drawn) const;
  std::vector<Commit> choose_above_threshold(std::span<const RowStatistics> drawn) const;
  std::vector<Commit> choose_ancestral(std::span<const RowStatistics> drawn);
  std::vector<Commit> choose_best(std::span<const RowStatistics> drawn) const;
  /// The position of the i-th row that the current plan samples from.
  int32_t drawn_position(size_t i) const;
  void want_draw(int32_t position);
  /// Writes tokens and goes to the next step; `report` gets the changed ones.
  void commit(const std::vector<Commit>& chosen, StepReport& report);
  void finish_block(StepReport& report);
  /// Lets finish_with_ replace the final tokens of a block, and reports changes.
  void replace_block(IndexRange positions, StepReport& report);
  StepReport correct(std::span<const RowStatistics> drawn);

  UniformDiffusion options_;
  NoiseSchedule schedule_;
  int32_t prompt_length_;
  int32_t length_;               // length of the canvas that callers see
  std::vector<TokenId> tokens_;  // [context]
  Phase phase_ = Phase::kDenoise;

  int32_t block_ = 0;
  int32_t step_ = 1;
  int32_t rest_step_ = 0;  ///< last step that denoised the positions after the answer, for a whole canvas
  bool changed_in_last_step_ = false;
  bool next_block_is_current_ = false;  // computed since a token changed
  StepPlan plan_;
  bool is_planned_ = false;
  FinishBlock finish_with_;        // may be empty
  std::vector<LogitRow> further_;  // follow-up: tokens still to be sampled
  std::vector<Commit>
      chosen_;  // choices of the current pass, some without a token until further_ is computed

  // With DriftRefresh, by position:
  struct Movement {
    int32_t computed_at = 0;  // global step; 0: never
    double rate = -1;         // 1 - cosine per step; negative: not known
  };
  std::vector<Movement> movements_;

  // While correcting:
  struct Suggestion {
    TokenId token = 0;
    double probability = 0;
    TokenId likeliest = 0;
  };
  int32_t iteration_ = 0;
  int32_t patience_used_ = 0;
  double best_accuracy_ = -1;            // below any accuracy
  std::vector<Suggestion> suggestions_;  // [answer's positions]
  std::vector<int32_t> corrected_;       // positions that the last iteration changed
};

}  // namespace lacuna
