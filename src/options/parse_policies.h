// Parses the texts of settings into policies. Each function throws SettingError with command-line names
// (options/names.h).
#pragma once

#include <optional>
#include <string_view>

#include "decode/strategy.h"

namespace lacuna {

inline constexpr std::string_view kUnmaskNames =
    "low-confidence, random, margin, entropy, maskgit, origin, p2, threshold=TAU, factor=F, local-leap=TAU, "
    "eb=E, streaming=TAU, klass=TAU, wino=TAU, saber=N, credit=TAU, slow-fast=TAU, dsb=TAU, adablock=TAU, "
    "d3llm=E or prophet; block diffusion also knows sequential, dynamic=TAU, entropy-bounded=E and soft=TAU, "
    "but none of origin, p2 and those after factor=F";

/// --unmask: which candidates a step commits, how many, and by which confidence they are ordered. A name
/// without a count rule of its own takes `family_rule`; `eps` is the time at which the schedule of "origin"
/// ends. Rules of several numbers name the others: klass=0.9,kl=0.01,history=2.
UnmaskRule parse_unmask(std::string_view text, const CountRule& family_rule, double eps = 1e-3);

/// --cache none|prefix|dual|free|free-literal|delayed=2|dkv|sparse-dllm=0.5,pool=3|dllm-cache=0.25,answer=7|
/// d2cache=32,rollout=0.1,sigma=10,inflate=0, with --refresh (0: not given) and --cache-block.
CachePolicy parse_cache(std::string_view text, int32_t refresh, int32_t cache_block, bool shifted_logits);

/// --lock
/// eps=5e-4,gate=20,min-age=1,prompt=paper|eager,population=candidates|unlocked,delta=D,unlock-every=P,
/// budget=32,unlock-eps=E,interval=4,cooldown=4,strictness=0.5, in any order.
SureLock parse_lock(std::string_view text);

/// --grow none, or tokens,start=4,rest=keep|drop, or
/// end-mass,start=64,by=8,tail=32,enough=0.5,plenty=0.9,unsure=0.1, in any order.
std::optional<CanvasGrowth> parse_growth(std::string_view text);

/// --guide-match exact|top-k=2|relative=0.5|tau-literal=0.5.
GuideMatch parse_guide_match(std::string_view text);
/// --guide-fallback dlm|ar.
GuideFallback parse_guide_fallback(std::string_view text);

/// --sampler adaptive|ancestral|greedy|threshold=0.9,least=1: sets the sampler and its numbers in `strategy`.
void parse_sampler(std::string_view text, UniformStrategy& strategy);
/// --boundary blocks=2,full-every=8.
BoundaryRefresh parse_boundary(std::string_view text);
/// --drift tau=0.01,page=16,budget=64.
DriftRefresh parse_drift(std::string_view text);
/// --self-correct on, or most=128,temperature=0.1,patience=32,tokens=1,full-every=1.
SelfCorrection parse_self_correction(std::string_view text);

/// --edit tau=0.5,most=16; `editing` has the defaults.
TokenEditing parse_editing(std::string_view text, TokenEditing editing = {});
/// --suffix-dropout on, or decay=4,scale=2.
SuffixDropout parse_suffix_dropout(std::string_view text);
/// --pipeline none, on, or add=0.1,full=0.95.
std::optional<Pipeline> parse_pipeline(std::string_view text);
/// --sparse exact|mage=K|quest=K,page=16|sparsed=K,exact=0.2|flashblock=N|losa=K,active=0.3125,page=16, each
/// but exact also with dense-layers=2.
SparsePolicy parse_sparse(std::string_view text);

/// --refusion lacuna|paper|released.
RefusionRules parse_refusion_rules(std::string_view text);

}  // namespace lacuna
