// How a model is decoded, as values: one struct of policies for each paradigm. Lengths are positions or
// tokens, probabilities lie in [0, 1], and an empty optional is the default that its comment names. A
// default-constructed strategy is that of the first family of its paradigm; options/presets.h has each
// family's.
#pragma once

#include <concepts>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "decode/block_diffusion.h"
#include "decode/cache_policy.h"
#include "decode/canvas_pass.h"
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

/// Guided diffusion: an autoregressive model confirms drafts and so decides what a pass commits.
struct GuideRule {
  GuideMatch match = MatchRelative{};
  GuideFallback fallback = GuideFallback::kDraft;
  int32_t block = 32;  ///< drafts that one pass of the guide judges

  bool operator==(const GuideRule&) const = default;
};

/// LLaDA, LLaDA-MoE and Dream: a step may commit any masked position of the canvas.
struct MaskedStrategy {
  std::optional<int32_t> block_length;  ///< divides the answer's length; default: the whole answer
  std::optional<int32_t>
      steps;  ///< steps of the whole run, a multiple of the number of blocks; default: one per position
  std::variant<UnmaskRule, GuideRule> commit;
  /// AdaBlock-dLLM: texts that may end a block, each one token; empty: a newline, alone and after others.
  std::vector<std::string> delimiters;
  TokenSampling sampling;
  double cfg_scale = 0;  ///< classifier-free guidance; 0: none
  CachePolicy cache;     ///< FreeCache::block 0: block_length
  /// Streaming-dLLM: a pass sees this many positions behind the block, and the last one; default: all.
  std::optional<int32_t> suffix;
  std::optional<SuffixDropout> suffix_dropout;  ///< DPad: which of the suffix's positions; default: all
  /// The prompt's whole blocks of so many tokens are computed once, each from itself and the blocks before
  /// it, so that requests may share their K/V; default: every pass computes what the cache policy says.
  std::optional<int32_t> prompt_block;
  std::optional<SureLock> lock;
  /// How the canvas changes its length; default: not at all. With growth, the answer's length is its maximum,
  /// and block_length defaults to 32 (DAEDAL).
  std::optional<CanvasGrowth> growth;
  bool logits_eos_inf = false;          ///< never sample the end-of-text token
  bool confidence_eos_eot_inf = false;  ///< commit end tokens last
  bool suppress_mask = false;           ///< never sample the mask token
  bool eos_exit = false;                ///< stop after the block that ends the answer

  bool operator==(const MaskedStrategy&) const = default;
};

/// SDAR, Fast-dLLM v2, LLaDA 2, D2F, Nemotron-Labs-Diffusion: blocks from left to right, masked positions of
/// a block in any order.
struct BlockStrategy : BlockPolicy {
  enum class Commit : uint8_t { kFused, kSeparate };

  std::optional<int32_t> block_length;      ///< default: as trained
  std::optional<int32_t> sub_block_length;  ///< Fast-dLLM v2; divides block_length; default: as trained
  std::optional<int32_t> steps;             ///< steps of a block; default: one per position
  UnmaskRule unmask;
  TokenSampling sampling;
  bool ignore_eos = false;       ///< continue after an end token
  std::optional<Commit> commit;  ///< kFused: a finished block's K/V come with the next step; default: kFused
                                 ///< if possible
  bool accepts_exactly = false;  ///< Nemotron-Labs: self-speculation; the text is that of causal decoding
  bool guided = false;  ///< SimSD: a smaller model drafts blocks; needs none of the policy's settings

  bool operator==(const BlockStrategy&) const = default;
};

/// GIDD: blocks of noise, any token of which a step may replace. Sumi: the whole canvas is one block.
struct UniformStrategy : UniformPolicy {
  std::optional<int32_t> block_length;  ///< default: 32, or the whole of a shorter answer; Sumi has no blocks
  std::optional<int32_t> steps;         ///< steps of a block; default: one per position; Sumi: as published
  std::optional<int32_t> context;       ///< prompt, answer and the noise after it; default: the model's
  bool noise_shows_special = false;     ///< noise is sampled from all tokens, special ones included
  TokenSampling sampling;

  bool operator==(const UniformStrategy&) const = default;
};

/// DiffusionGemma, LFM2.5-Diffusion: canvases from left to right, any token of which a pass may replace.
struct CanvasStrategy {
  std::optional<int32_t> block_length;  ///< positions of a canvas; default: as trained
  std::optional<int32_t> steps;         ///< maximum passes per canvas; default: as published
  std::optional<double> entropy_bound;  ///< nats; of tokens accepted together; default: as published
  std::optional<double> stop_entropy;  ///< nats; mean entropy of a canvas that is done; default: as published
  double temperature = 1;  ///< 1: candidates are sampled at the published temperatures; 0: the best tokens
  double soft_embedding_slack = 1e-6;  ///< probability that self-conditioning may leave out; 0: none
  bool ignore_eos = false;             ///< continue after an end token

  bool operator==(const CanvasStrategy&) const = default;
};

/// ReFusion: slots in any order, each written from left to right.
struct SlotStrategy : SlotPolicy {
  TokenSampling sampling;
  bool suppress_mask = false;  ///< kPaper, kReleased: never sample the mask token

  bool operator==(const SlotStrategy&) const = default;
};

/// Qwen: one token after the other.
struct CausalStrategy {
  TokenSampling sampling;
  bool ignore_eos = false;
  /// I-DLM, SDLM: maximum tokens that a pass writes; 1: no drafts; none: as trained.
  std::optional<int32_t> block_length;
  /// SDLM: a window's tokens are written up to the first that is not more probable than this; none: 0.9.
  std::optional<double> token_threshold;

  bool operator==(const CausalStrategy&) const = default;
};

using Strategy = std::variant<MaskedStrategy, BlockStrategy, UniformStrategy, CanvasStrategy, SlotStrategy,
                              CausalStrategy>;

/// S is Value or const Value.
template <typename S, typename Value>
concept FieldsOf = std::same_as<std::remove_const_t<S>, Value>;

// visit_fields() calls visit(name, field) for every field of a strategy, in printing order, or visit(name,
// field, least, most) for numbers whose range does not depend on the model or the request. A field with the
// name and the type of a setting takes the setting's value.

template <FieldsOf<TokenSampling> S, typename Visit>
void visit_fields(S& sampling, Visit&& visit) {
  visit("temperature", sampling.temperature, 0.0, 1e3);
  visit("top_p", sampling.top_p, 1e-6, 1.0);
  visit("top_k", sampling.top_k);
}

template <FieldsOf<MaskedStrategy> S, typename Visit>
void visit_fields(S& strategy, Visit&& visit) {
  visit("block_length", strategy.block_length);
  visit("steps", strategy.steps, 1, kMaxGenLength);
  visit("commit", strategy.commit);
  visit("delimiter", strategy.delimiters);
  visit_fields(strategy.sampling, visit);
  visit("cfg_scale", strategy.cfg_scale, 0.0, 1e3);
  visit("cache", strategy.cache);
  visit("suffix", strategy.suffix, 0, kMaxGenLength);
  visit("suffix_dropout", strategy.suffix_dropout);
  visit("prompt_block", strategy.prompt_block, 1, kMaxGenLength);
  visit("lock", strategy.lock);
  visit("growth", strategy.growth);
  visit("logits_eos_inf", strategy.logits_eos_inf);
  visit("confidence_eos_eot_inf", strategy.confidence_eos_eot_inf);
  visit("suppress_mask", strategy.suppress_mask);
  visit("eos_exit", strategy.eos_exit);
}

template <FieldsOf<BlockStrategy> S, typename Visit>
void visit_fields(S& strategy, Visit&& visit) {
  visit("block_length", strategy.block_length);
  visit("sub_block_length", strategy.sub_block_length);
  visit("steps", strategy.steps);
  visit("unmask", strategy.unmask);
  visit_fields(strategy.sampling, visit);
  visit("ignore_eos", strategy.ignore_eos);
  visit("caches_block", strategy.caches_block);
  visit("commit", strategy.commit);
  visit("edit", strategy.edit);
  visit("sparse", strategy.sparse);
  visit("commits_sparsely", strategy.commits_sparsely);
  visit("sparse_after", strategy.sparse_after);
  visit("accepts_exactly", strategy.accepts_exactly);
  visit("guided", strategy.guided);
  visit("lock", strategy.lock);
  visit("pipeline", strategy.pipeline);
  visit("drafts", strategy.drafts, 1, kMaxDrafts);
  visit("focus", strategy.focus, 1.0, 1e3);
}

template <FieldsOf<UniformStrategy> S, typename Visit>
void visit_fields(S& strategy, Visit&& visit) {
  visit("block_length", strategy.block_length, 1, kMaxGenLength);
  visit("steps", strategy.steps, 1, kMaxGenLength);
  visit("context", strategy.context);
  visit("min_length", strategy.min_length);
  visit("ignore_eos", strategy.ignore_eos);
  visit("sampler", strategy.sampler);
  visit("tokens_per_step", strategy.tokens_per_step, 1, kMaxGenLength);
  visit("threshold", strategy.threshold);
  visit("schedule", strategy.schedule);
  visit("noise_shows_special", strategy.noise_shows_special);
  visit_fields(strategy.sampling, visit);
  visit("cache", strategy.cache);
  visit("refresh", strategy.refresh, 0, kMaxGenLength);
  visit("boundary", strategy.boundary);
  visit("drift", strategy.drift);
  visit("leaves_at_fixed_point", strategy.leaves_at_fixed_point);
  visit("whole_last_layer", strategy.whole_last_layer);
  visit("self_correct", strategy.self_correct);
}

template <FieldsOf<CanvasStrategy> S, typename Visit>
void visit_fields(S& strategy, Visit&& visit) {
  constexpr int32_t kLongestCanvas = 1024;
  visit("block_length", strategy.block_length, 1, kLongestCanvas);
  visit("steps", strategy.steps, 1, kMaxGenLength);
  visit("entropy_bound", strategy.entropy_bound);
  visit("stop_entropy", strategy.stop_entropy, 0.0, 1e6);
  visit("temperature", strategy.temperature);
  visit("soft_embedding_slack", strategy.soft_embedding_slack, 0.0, 1.0);
  visit("ignore_eos", strategy.ignore_eos);
}

template <FieldsOf<SlotStrategy> S, typename Visit>
void visit_fields(S& strategy, Visit&& visit) {
  visit("rules", strategy.rules);
  visit("block_length", strategy.block_length, 1, kMaxGenLength);
  visit("slot_size", strategy.slot_size, 1, kMaxGenLength);
  visit("slot_threshold", strategy.slot_threshold, 0.0, 1.0);
  visit("token_threshold", strategy.token_threshold, 0.0, 1.0);
  visit("verifies_fills", strategy.verifies_fills);
  visit("recomputes_kv", strategy.recomputes_kv);
  visit("recomputes_apart", strategy.recomputes_apart);
  visit("accepts_exactly", strategy.accepts_exactly);
  visit("revoke", strategy.revoke, 0.0, 1.0);
  visit_fields(strategy.sampling, visit);
  visit("suppress_mask", strategy.suppress_mask);
}

template <FieldsOf<CausalStrategy> S, typename Visit>
void visit_fields(S& strategy, Visit&& visit) {
  visit_fields(strategy.sampling, visit);
  visit("ignore_eos", strategy.ignore_eos);
  visit("block_length", strategy.block_length, 1, kMaxGenLength);
  visit("token_threshold", strategy.token_threshold, 0.0, 1.0);
}

Paradigm paradigm_of(const Strategy& strategy);

/// {"paradigm": "masked", ...}: every field under its name in these structs, without empty optionals.
nlohmann::ordered_json to_json(const Strategy& strategy);
/// to_json() on one line.
std::string describe(const Strategy& strategy);

}  // namespace lacuna
