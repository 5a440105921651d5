// Unmask policies: which masked positions a step commits. A policy says how candidates are ordered, and how
// many of them are taken.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "base/rng.h"
#include "decode/decoder.h"
#include "lacuna/types.h"
#include "model/sampling.h"

namespace lacuna {

// Noise streams of a denoising step, one per purpose, so that samples and choices never share a random
// number.
inline constexpr uint64_t kTokenNoise = 1;
inline constexpr uint64_t kOrderNoise = 2;

/// Properties of a rule besides its count.
struct RuleTraits {
  bool ignores_logits = false;    ///< the choice needs no logits, so that only the chosen positions need any
  bool runs_until_done = false;   ///< a block ends when nothing is masked, instead of after its steps
  bool writes_masks = false;      ///< a position that took the mask token itself counts as written
  bool remasks = false;           ///< a step may remask tokens of earlier steps
  bool predicts_written = false;  ///< a step predicts written positions as well as masked ones
  bool remembers = false;         ///< a step depends on earlier steps of the request
  bool gives_credit = false;      ///< a step may write a token that earlier passes preferred
  bool exits_early = false;       ///< a step may write all masked positions
  bool measures_drift = false;    ///< the choice needs the drift of the candidates' posteriors
  bool verifies = false;          ///< extra mask rows verify written tokens
  bool cuts_canvas = false;       ///< a pass may see only the canvas before a position of the block
  bool needs_whole_canvas = false;  ///< only for masked diffusion, not for block diffusion
  bool needs_blocks = false;        ///< only for block diffusion, not for masked diffusion
  bool is_custom = false;           ///< choose() needs all statistics of the rows
  ConfidenceMeasure measure = ConfidenceMeasure::kProbability;  ///< used if a setting names the rule
};

/// Where a step stands within its block.
struct BlockProgress {
  int32_t step = 0;             ///< 0-based within the block
  int32_t num_steps = 1;        ///< steps of the block
  int32_t masked_at_start = 0;  ///< masked positions when the block began
  int32_t masked_now = 0;       ///< candidates of the step; Remasking: with written positions
  /// DecayingThreshold: share of masks among the visible positions from the block's begin on; 1 in the
  /// block's first step.
  double masked_share = 1;
};

/// LLaDA (generate.py, get_num_transfer_tokens): the masks of a block split evenly over its steps, the first
/// ones taking one more.
struct EvenSplit {
  static constexpr RuleTraits kTraits = {};
  bool operator==(const EvenSplit&) const = default;
};

/// Dream (generation_utils.py): at times t = 1 ... eps spaced evenly in f32, a step from t to s unmasks
/// trunc(masked * (1 - s / t)) positions; the last step unmasks the rest.
struct TimeSchedule {
  static constexpr RuleTraits kTraits = {};
  float eps = 1e-3F;
  bool operator==(const TimeSchedule&) const = default;
};

/// Dream's "origin" (the ancestral sampler): each masked position independently, with probability 1 - s / t.
struct AncestralSampling {
  static constexpr RuleTraits kTraits = {.ignores_logits = true, .needs_whole_canvas = true};
  float eps = 1e-3F;
  bool operator==(const AncestralSampling&) const = default;
};

/// RND1 (rnd/sampling.py): of the N positions that were masked when the block began, the
/// trunc(N (T - 1 - i) / T) least confident ones stay masked in step i of T, with the share (T - 1 - i) / T
/// and the product in f32; what is written is final.
struct LinearSchedule {
  static constexpr RuleTraits kTraits = {.writes_masks = true};
  bool operator==(const LinearSchedule&) const = default;
};

/// Fast-dLLM section 3.3: every position whose confidence reaches tau, and always the most confident.
struct Threshold {
  static constexpr RuleTraits kTraits = {.runs_until_done = true};
  double tau = 0.9;  ///< probability, (0, 1]
  bool operator==(const Threshold&) const = default;
};

/// Fast-dLLM section 3.3: with confidences in descending order c_1, c_2, ..., the longest prefix with
/// c_n >= 1 - f / (n + 1), and always the most confident.
struct Factor {
  static constexpr RuleTraits kTraits = {.runs_until_done = true};
  double f = 1;
  bool operator==(const Factor&) const = default;
};

/// SDAR's low_confidence_dynamic (generate.py), LLaDA 2 and Fast-dLLM v2: every position whose confidence is
/// above tau, and at least the number of positions that EvenSplit takes.
struct Dynamic {
  static constexpr RuleTraits kTraits = {.needs_blocks = true};
  double tau = 0.85;  ///< probability, (0, 1]
  bool operator==(const Dynamic&) const = default;
};

/// SDAR's entropy_bounded (JetEngine, scheduler.py): in ascending order of entropy, the longest prefix whose
/// entropies add up to less than the bound, and always the first.
struct EntropyBounded {
  static constexpr RuleTraits kTraits = {.needs_blocks = true};
  double bound = 0.35;  ///< nats, > 0
  bool operator==(const EntropyBounded&) const = default;
};

/// P2 (Peng et al. 2025, arXiv 2502.03540) as Open-dCoder samples (generation_utils.py): a step predicts
/// every position that was masked when the block began, also those with a token. Of n such positions, the
/// trunc(n * (1 - k / T)) least confident ones are masked after step k of T. The other positions are written
/// if masked, and keep their token otherwise.
struct Remasking {
  static constexpr RuleTraits kTraits = {
      .remasks = true, .predicts_written = true, .needs_whole_canvas = true};
  bool operator==(const Remasking&) const = default;
};

/// Range of the real numbers of the rules below; probabilities end at 1. Each rule's visit_numbers() calls
/// visit(name, number, least, most) in printing order. In a setting, the first number has the rule's name,
/// kName (klass=0.9,kl=0.01).
inline constexpr double kMinRuleNumber = 1e-9;
inline constexpr double kMaxRuleNumber = 1e6;

/// LocalLeap (Kong et al. 2025, arXiv 2510.07081): every position whose confidence reaches tau, those at most
/// `radius` positions from one of them whose confidence reaches `relaxed`, and always the most confident.
struct LocalLeap {
  static constexpr std::string_view kName = "local-leap";
  static constexpr RuleTraits kTraits = {.runs_until_done = true, .needs_whole_canvas = true};
  double tau = 0.9;       ///< probability
  double relaxed = 0.75;  ///< probability
  int32_t radius = 4;     ///< positions
  bool operator==(const LocalLeap&) const = default;

  static void visit_numbers(auto& rule, auto&& visit) {
    visit("tau", rule.tau, kMinRuleNumber, 1.0);
    visit("relaxed", rule.relaxed, kMinRuleNumber, 1.0);
    visit("radius", rule.radius, 0, kMaxGenLength);
  }
};

/// EB-Sampler (Ben-Hamu et al. 2025, arXiv 2505.24857): in ascending order of entropy, the longest prefix
/// whose entropies without the largest add up to at most the bound; at least one position.
struct EntropyBudget {
  static constexpr std::string_view kName = "eb";
  static constexpr RuleTraits kTraits = {
      .runs_until_done = true, .needs_whole_canvas = true, .measure = ConfidenceMeasure::kNegativeEntropy};
  double bound = 0.001;  ///< nats
  bool operator==(const EntropyBudget&) const = default;

  static void visit_numbers(auto& rule, auto&& visit) {
    visit("bound", rule.bound, kMinRuleNumber, kMaxRuleNumber);
  }
};

/// Streaming-dLLM (Xiao et al. 2026, arXiv 2601.17917; xiaoshideta/Streaming-dLLM, LLaDA-1.5/generate.py):
/// Threshold with tau (1 - alpha (1 - r)), r = BlockProgress::masked_share, which falls while positions are
/// written.
struct DecayingThreshold {
  static constexpr std::string_view kName = "streaming";
  static constexpr RuleTraits kTraits = {
      .runs_until_done = true, .remembers = true, .needs_whole_canvas = true};
  double tau = 0.9;    ///< probability
  double alpha = 0.3;  ///< up to 1
  bool operator==(const DecayingThreshold&) const = default;

  static void visit_numbers(auto& rule, auto&& visit) {
    visit("tau", rule.tau, kMinRuleNumber, 1.0);
    visit("alpha", rule.alpha, kMinRuleNumber, 1.0);
  }
};

/// KLASS (Kim et al. 2025, shkim0116/KLASS, llada_klass.py): every position with a confidence above tau whose
/// posterior moved by less than `kl` in each of the last `history` passes of its block; if no position
/// qualifies, the most confident one.
struct Klass {
  static constexpr std::string_view kName = "klass";
  static constexpr RuleTraits kTraits = {
      .runs_until_done = true, .remembers = true, .measures_drift = true, .needs_whole_canvas = true};
  double tau = 0.9;     ///< probability
  double kl = 0.01;     ///< nats: KL(p of this pass || p of the pass before)
  int32_t history = 2;  ///< passes
  bool operator==(const Klass&) const = default;

  static void visit_numbers(auto& rule, auto&& visit) {
    visit("tau", rule.tau, kMinRuleNumber, 1.0);
    visit("kl", rule.kl, kMinRuleNumber, kMaxRuleNumber);
    visit("history", rule.history, 1, kMaxGenLength);
  }
};

/// WINO (Hong et al. 2025, Feng-Hong/WINO-DLLM, decoding.py): the positions with a confidence above tau, at
/// most 70% of the masks (clamped to 5 to 20), and always the most confident. Each pass also computes an
/// extra mask row for every position of the block, which sees the canvas without that position. A step that
/// commits more than one token remasks written tokens whose extra row gives them a probability below `back`.
struct Wino {
  static constexpr std::string_view kName = "wino";
  static constexpr RuleTraits kTraits = {.runs_until_done = true,
                                         .remasks = true,
                                         .remembers = true,
                                         .verifies = true,
                                         .needs_whole_canvas = true};
  double tau = 0.6;   ///< probability
  double back = 0.9;  ///< probability
  bool operator==(const Wino&) const = default;

  static void visit_numbers(auto& rule, auto&& visit) {
    visit("tau", rule.tau, kMinRuleNumber, 1.0);
    visit("back", rule.back, kMinRuleNumber, 1.0);
  }
};

/// Saber (Dong et al. 2025, arXiv 2510.18165, zhaoyMa/Saber, decoding.py): every position with a confidence
/// above the mean confidence of written tokens, at least `least`. A step also predicts written positions and
/// remasks those whose confidence has grown least, an eighth of its number of commits.
struct Saber {
  static constexpr std::string_view kName = "saber";
  static constexpr RuleTraits kTraits = {.runs_until_done = true,
                                         .remasks = true,
                                         .predicts_written = true,
                                         .remembers = true,
                                         .needs_whole_canvas = true};
  int32_t least = 2;  ///< positions
  bool operator==(const Saber&) const = default;

  static void visit_numbers(auto& rule, auto&& visit) { visit("least", rule.least, 1, kMaxGenLength); }
};

/// CreditDecoding (Wang et al. 2025, arXiv 2510.06133; inclusionAI/dInfer, CreditThresholdParallelDecoder):
/// in every pass of a block each masked position gives its best token a credit of p^gamma; older credits are
/// multiplied by beta. Threshold then uses the distribution whose logits have alpha ln(1 + credit) added, and
/// its best token is written.
struct TraceCredit {
  static constexpr std::string_view kName = "credit";
  static constexpr RuleTraits kTraits = {
      .runs_until_done = true, .remembers = true, .gives_credit = true, .needs_whole_canvas = true};
  double tau = 0.9;  ///< probability
  double alpha = 0.7;
  double gamma = 0.2;
  double beta = 0.8;  ///< up to 1
  bool operator==(const TraceCredit&) const = default;

  static void visit_numbers(auto& rule, auto&& visit) {
    visit("tau", rule.tau, kMinRuleNumber, 1.0);
    visit("alpha", rule.alpha, kMinRuleNumber, kMaxRuleNumber);
    visit("gamma", rule.gamma, kMinRuleNumber, kMaxRuleNumber);
    visit("beta", rule.beta, kMinRuleNumber, 1.0);
  }
};

/// Prophet (Li et al. 2025, arXiv 2508.19982; pixeli99/Prophet, generate_earlyexit.py): EvenSplit, until the
/// mean lead of the best logit over the second, taken over `length` positions of the answer from `answer` on,
/// is large enough: then a step writes every mask. The bound is `early` in the first 33% of the steps, `mid`
/// up to 67%, then `late`.
struct Prophet {
  static constexpr std::string_view kName = "prophet";
  static constexpr RuleTraits kTraits = {.exits_early = true, .needs_whole_canvas = true};
  double early = 7.5;                  ///< difference of logits
  double mid = 5;                      ///< likewise
  double late = 2.5;                   ///< likewise
  std::optional<int32_t> answer = {};  ///< 0-based position of the answer; none: the lead of the whole answer
  int32_t length = 5;                  ///< positions
  bool operator==(const Prophet&) const = default;

  static void visit_numbers(auto& rule, auto&& visit) {
    visit("early", rule.early, kMinRuleNumber, kMaxRuleNumber);
    visit("mid", rule.mid, kMinRuleNumber, kMaxRuleNumber);
    visit("late", rule.late, kMinRuleNumber, kMaxRuleNumber);
    visit("answer", rule.answer, 0, kMaxGenLength);
    visit("length", rule.length, 1, kMaxGenLength);
  }
};

/// SlowFast (Wei et al. 2025, arXiv 2506.10848; LiangrunFlora/Slow-Fast-Sampling,
/// generate_slow_fast_sampling.py): Threshold in cycles. `explore` steps of Threshold{slow} write anywhere in
/// the block and estimate the end of its next span, behind the last position whose confidence reaches `span`.
/// Then Threshold{tau} fills the span; passes after its first one do not see positions behind it.
struct SlowFast {
  static constexpr std::string_view kName = "slow-fast";
  static constexpr RuleTraits kTraits = {
      .runs_until_done = true, .remembers = true, .cuts_canvas = true, .needs_whole_canvas = true};
  double tau = 0.9;     ///< probability
  double slow = 0.9;    ///< probability, while it explores
  double span = 0.3;    ///< probability
  int32_t explore = 6;  ///< steps of a cycle that explore
  bool operator==(const SlowFast&) const = default;

  static void visit_numbers(auto& rule, auto&& visit) {
    visit("tau", rule.tau, kMinRuleNumber, 1.0);
    visit("slow", rule.slow, kMinRuleNumber, 1.0);
    visit("span", rule.span, kMinRuleNumber, 1.0);
    visit("explore", rule.explore, 1, kMaxGenLength);
  }
};

/// DSB (Luo et al. 2026, arXiv 2602.05992; lizhuo008/DSB, generate_dsb): Threshold in a sliding part of the
/// block: its first `start` positions and one more for each written token, but at most `most` positions from
/// the first mask.
struct SlidingBlock {
  static constexpr std::string_view kName = "dsb";
  static constexpr RuleTraits kTraits = {
      .runs_until_done = true, .remembers = true, .needs_whole_canvas = true};
  double tau = 0.9;                  ///< probability
  int32_t start = 32;                ///< positions
  std::optional<int32_t> most = {};  ///< positions; none: up to the block's end
  bool operator==(const SlidingBlock&) const = default;

  static void visit_numbers(auto& rule, auto&& visit) {
    visit("tau", rule.tau, kMinRuleNumber, 1.0);
    visit("start", rule.start, 1, kMaxGenLength);
    visit("most", rule.most, 1, kMaxGenLength);
  }
};

/// DMax's soft parallel decoding (Chen et al. 2026, arXiv 2604.08302; czg1225/DMax, parallel_strategy.py):
/// the masked positions of a block up to the first whose confidence is below tau, and always the first. A
/// step also writes every written position anew, and the next one reads written tokens mixed with the mask
/// (MixedRow) by their confidence. A block without masks is done when every confidence reaches `accept`, or
/// when a step has changed no token.
struct SoftTokens {
  static constexpr std::string_view kName = "soft";
  static constexpr RuleTraits kTraits = {
      .runs_until_done = true, .predicts_written = true, .needs_blocks = true};
  double tau = 0.5;     ///< probability
  double accept = 0.9;  ///< probability
  bool operator==(const SoftTokens&) const = default;

  static void visit_numbers(auto& rule, auto&& visit) {
    visit("tau", rule.tau, 0.0, 1.0);
    visit("accept", rule.accept, 0.0, 1.0);
  }
};

/// AdaBlock-dLLM (Lu et al. 2025, arXiv 2509.26432; lgxi24/AdaBlock-dLLM, llada/generate_adablock.py):
/// Threshold in blocks that end at a delimiter: a token that ends a line, or another one that the caller
/// names. A block's first pass predicts a window behind its begin; the block ends behind the most confident
/// delimiter of the window if that reaches `delimiter`, and otherwise has the usual length.
struct AdaptiveBlock {
  static constexpr std::string_view kName = "adablock";
  static constexpr RuleTraits kTraits = {
      .runs_until_done = true, .remembers = true, .needs_whole_canvas = true};
  static constexpr int32_t kWindowShare = 4;  ///< the window has the answer's length divided by this
  double tau = 0.9;                           ///< probability
  std::optional<double> delimiter = {};       ///< probability; none: 0.3, Dream 0.5
  bool operator==(const AdaptiveBlock&) const = default;

  static void visit_numbers(auto& rule, auto&& visit) {
    visit("tau", rule.tau, kMinRuleNumber, 1.0);
    visit("delimiter", rule.delimiter, kMinRuleNumber, 1.0);
  }
};

/// d3LLM's multi-block decoding (hao-ai-lab/d3LLM, d3llm_llada_generate_util.py): every position of the begun
/// blocks whose entropy is at most the bound, and always the one with the least entropy of the first block
/// that has masks; LLaDA also takes the least entropy of all. A block begins once a share of the one before
/// is written.
struct MultiBlock {
  static constexpr std::string_view kName = "d3llm";
  static constexpr RuleTraits kTraits = {.runs_until_done = true,
                                         .remembers = true,
                                         .needs_whole_canvas = true,
                                         .measure = ConfidenceMeasure::kNegativeEntropy};
  std::optional<double> bound = {};  ///< nats; none: 0.5, Dream 0.4
  double add = 0.1;                  ///< written share of the last begun block with which the next one begins
  bool operator==(const MultiBlock&) const = default;

  static void visit_numbers(auto& rule, auto&& visit) {
    visit("bound", rule.bound, kMinRuleNumber, kMaxRuleNumber);
    visit("add", rule.add, kMinRuleNumber, 1.0);
  }
};

/// A function of the caller. It must not throw, and must choose at least one candidate.
struct CustomRule {
  static constexpr RuleTraits kTraits = {.runs_until_done = true, .is_custom = true};
  std::shared_ptr<const UnmaskFunction> choose;
  bool operator==(const CustomRule&) const = default;  ///< the same function object
};

using CountRule = std::variant<EvenSplit, TimeSchedule, AncestralSampling, LinearSchedule, Threshold, Factor,
                               Dynamic, EntropyBounded, Remasking, LocalLeap, EntropyBudget,
                               DecayingThreshold, Klass, Wino, Saber, TraceCredit, Prophet, SlowFast,
                               SlidingBlock, AdaptiveBlock, MultiBlock, SoftTokens, CustomRule>;

/// A rule with a name and several numbers.
template <typename Rule>
concept NumberedRule = requires {
  Rule::kName;
};

/// Order of the candidates.
enum class UnmaskOrder : uint8_t {
  kConfidence,
  kRandom,       ///< LLaDA's "random"
  kLeftToRight,  ///< SDAR's "sequential"
};

struct UnmaskPolicy {
  CountRule count;
  UnmaskOrder order = UnmaskOrder::kConfidence;
  /// Dream's alg_temp: 0 takes the most confident; above, positions are sampled without replacement with
  /// weights softmax(confidence / alg_temp).
  float order_temperature = 0;

  const RuleTraits& traits() const {
    return std::visit([](const auto& rule) -> const RuleTraits& { return rule.kTraits; }, count);
  }
  /// Whether the choice needs no logits, by its order or its rule.
  bool ignores_logits() const { return order != UnmaskOrder::kConfidence || traits().ignores_logits; }

  /// Whether the policy is for block diffusion alone, by its order or its rule.
  bool needs_blocks() const { return order == UnmaskOrder::kLeftToRight || traits().needs_blocks; }

  bool operator==(const UnmaskPolicy&) const = default;
};

/// Input of choose() from earlier steps.
struct StepHistory {
  /// Klass: [candidates] whether the posterior has been stable for long enough; empty: none is.
  std::vector<bool> is_stable = {};
  double written_confidence = 1;  ///< Saber: mean confidence of written tokens, 1 without any
  bool is_exploring = true;       ///< SlowFast: whether the step explores
  int32_t first_end = 0;          ///< MultiBlock: end of the first block that has masks
  bool takes_best = true;         ///< MultiBlock: whether the least entropy of all is always taken
};

/// 1 - s / t of step `step` of `num_steps`, in Dream's f32 arithmetic; 1 in the last step.
float unmask_probability(float eps, int32_t step, int32_t num_steps);

/// Number of positions that the step commits, for the rules that fix it (EvenSplit, TimeSchedule,
/// LinearSchedule), or that have a token after it (Remasking).
int32_t fixed_count(const CountRule& rule, const BlockProgress& progress);

/// The positions to commit, ascending, from candidates in ascending position order. Ties go to the lowest
/// position. `noise` gives one random number per position, for the rules that need any.
///   rows  of the candidates, in their order; only CustomRule reads them
std::vector<Commit> choose(const UnmaskPolicy& policy, std::span<const Commit> candidates,
                           const BlockProgress& progress, const RngStream& noise,
                           std::span<const RowStatistics> rows = {}, const StepHistory& history = {});

}  // namespace lacuna
