// How a model is decoded, as values: one struct of policies for each paradigm. Lengths are positions or
// tokens, probabilities lie in [0, 1], and an empty optional is the default that its comment names. A
// default-constructed strategy is that of the first family of its paradigm; options/presets.h has each
// family's.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <variant>

#include "decode/block_diffusion.h"
#include "decode/cache_policy.h"
#include "decode/growing_diffusion.h"
#include "decode/guided_diffusion.h"
#include "decode/noise_schedule.h"
#include "decode/refusion.h"
#include "decode/sparse_policy.h"
#include "decode/surelock.h"
#include "decode/uniform_diffusion.h"
#include "decode/unmask.h"
#include "model/config.h"

namespace lacuna {

/// How a token is sampled from a row of logits.
struct TokenSampling {
  double temperature = 0;  ///< 0: the best token, whatever the filters
  double top_p = 1;        ///< sample from the most likely tokens up to this total probability; (0, 1]
  int32_t top_k = 0;       ///< sample from this many of the most likely tokens; 0: all

  bool operator==(const TokenSampling&) const = default;
};

/// Which tokens a step commits.
struct UnmaskRule {
  UnmaskPolicy policy;
  ConfidenceMeasure measure = ConfidenceMeasure::kProbability;

  bool operator==(const UnmaskRule&) const = default;
};

/// An autoregressive model confirms drafts: what a pass commits is its choice (guided diffusion).
struct GuideRule {
  GuideMatch match = MatchRelative{};
  GuideFallback fallback = GuideFallback::kDraft;
  int32_t block = 32;  ///< drafts that one pass of the guide judges

  bool operator==(const GuideRule&) const = default;
};

/// LLaDA, LLaDA-MoE and Dream: any masked position of a canvas at any step.
struct MaskedStrategy {
  std::optional<int32_t> block_length;  ///< divides the answer's length; default: the whole answer
  std::optional<int32_t>
      steps;  ///< steps of the whole run, a multiple of the number of blocks; default: one per position
  std::variant<UnmaskRule, GuideRule> commit;
  TokenSampling sampling;
  double cfg_scale = 0;  ///< classifier-free guidance; 0: none
  CachePolicy cache;     ///< FreeCache::block 0: block_length
  std::optional<SureLock> lock;
  /// How the canvas changes its length; default: it keeps it. Then the answer's length is the most that it
  /// may have, and block_length 32 unless it is given (DAEDAL).
  std::optional<CanvasGrowth> growth;
  bool logits_eos_inf = false;          ///< never sample the end-of-text token
  bool confidence_eos_eot_inf = false;  ///< commit end tokens last
  bool suppress_mask = false;           ///< never sample the mask token
  bool eos_exit = false;                ///< stop after the block that ends the answer

  bool operator==(const MaskedStrategy&) const = default;
};

/// SDAR, Fast-dLLM v2, LLaDA 2, Nemotron-Labs-Diffusion: blocks from left to right, masked positions of a
/// block in any order.
struct BlockStrategy {
  enum class Commit : uint8_t { kFused, kSeparate };

  std::optional<int32_t> block_length;      ///< default: as trained
  std::optional<int32_t> sub_block_length;  ///< Fast-dLLM v2; divides block_length; default: as trained
  std::optional<int32_t> steps;             ///< steps of a block; default: one per position
  UnmaskRule unmask;
  TokenSampling sampling;
  bool ignore_eos = false;       ///< continue after an end token
  bool caches_block = false;     ///< Fast-dLLM v2: compute a sub-block alone where that is possible
  std::optional<Commit> commit;  ///< a finished block's K/V come with the next step; default: where they can
  std::optional<TokenEditing> edit;
  SparsePolicy sparse;
  bool commits_sparsely = false;  ///< K/V that are kept come from sparse attention
  int32_t sparse_after = 0;       ///< attend to all from this step of a block on; 0: never
  bool accepts_exactly = false;   ///< Nemotron-Labs: self-speculation, the text is the causal mode's own
  std::optional<SureLock> lock;   ///< rows of a block that later steps leave out; without unlocking

  bool operator==(const BlockStrategy&) const = default;
};

/// GIDD: blocks of noise, any token of which a step may replace. Sumi: the whole canvas is one block.
struct UniformStrategy {
  std::optional<int32_t> block_length;  ///< default: 32, or the whole of a shorter answer; Sumi has no blocks
  std::optional<int32_t> steps;         ///< steps of a block; default: one per position; Sumi: as published
  std::optional<int32_t> context;       ///< prompt, answer and the noise after it; default: the model's
  int32_t min_length = 0;               ///< positions of the answer that hold no end token
  bool ignore_eos = false;
  UniformSampler sampler = UniformSampler::kAdaptive;
  int32_t tokens_per_step = 3;    ///< kAdaptive: at most this many tokens change
  PreferenceThreshold threshold;  ///< kThreshold
  NoiseCurve schedule = NoiseCurve::kCosine;
  bool noise_shows_special = false;  ///< noise is sampled from all tokens, special ones included
  TokenSampling sampling;
  UniformCacheKind cache = UniformCacheKind::kNone;
  int32_t refresh = 4;  ///< kUniform: steps between those that compute the next block too (Sumi: everything);
                        ///< 0: never
  std::optional<BoundaryRefresh> boundary;  ///< kUniform
  std::optional<DriftRefresh> drift;        ///< kUniform, instead of refresh
  bool leaves_at_fixed_point = true;
  bool whole_last_layer = false;
  std::optional<SelfCorrection> self_correct;

  bool operator==(const UniformStrategy&) const = default;
};

/// DiffusionGemma: canvases from left to right, any token of which a pass may replace.
struct CanvasStrategy {
  std::optional<int32_t> block_length;  ///< positions of a canvas; default: as trained
  std::optional<int32_t> steps;         ///< passes of a canvas at most; default: as published
  std::optional<double>
      entropy_bound;  ///< nats of the tokens that are accepted together; default: as published
  std::optional<double> stop_entropy;  ///< nats; mean entropy of a canvas that is done; default: as published
  double temperature = 1;  ///< 1: candidates are sampled at the published temperatures; 0: the best tokens
  double soft_embedding_slack = 1e-6;  ///< probability that self-conditioning may leave out; 0: none
  bool ignore_eos = false;             ///< continue after an end token

  bool operator==(const CanvasStrategy&) const = default;
};

/// ReFusion: slots in any order, each written from left to right.
struct SlotStrategy {
  RefusionRules rules = RefusionRules::kLacuna;
  int32_t block_length = 64;
  int32_t slot_size = 8;
  double slot_threshold = 0.9;
  double token_threshold = 0.9;
  bool verifies_fills = true;    ///< kLacuna: slots completed in parallel are computed once more in order
  bool recomputes_kv = false;    ///< of slots completed in parallel
  bool accepts_exactly = false;  ///< kLacuna: drafts that are the left-to-right model's own
  double revoke = 0;             ///< kLacuna: mask a slot anew from its first token less likely; 0: never
  TokenSampling sampling;
  bool suppress_mask = false;  ///< kPaper, kReleased: never sample the mask token

  bool operator==(const SlotStrategy&) const = default;
};

/// Qwen: one token after the other.
struct CausalStrategy {
  TokenSampling sampling;
  bool ignore_eos = false;
  /// I-DLM: tokens that a pass writes where all drafts are accepted; 1: no drafts; none: as trained.
  std::optional<int32_t> block_length;

  bool operator==(const CausalStrategy&) const = default;
};

using Strategy = std::variant<MaskedStrategy, BlockStrategy, UniformStrategy, CanvasStrategy, SlotStrategy,
                              CausalStrategy>;

Paradigm paradigm_of(const Strategy& strategy);

/// {"paradigm": "masked", ...}: every field, under the names of these structs; none is null.
nlohmann::ordered_json to_json(const Strategy& strategy);
/// The same on one line.
std::string describe(const Strategy& strategy);

}  // namespace lacuna
