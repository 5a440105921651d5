// Sampling of a token from a row of logits, and its confidence. Each row is reduced right after its
// computation, so that the logits of all rows never exist together.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "base/token.h"
#include "kernels/table.h"

namespace lacuna {

/// Measure by which a decoder orders its candidates; larger is more confident.
enum class ConfidenceMeasure : uint8_t {
  kProbability,      ///< probability of the sampled token (LLaDA's low_confidence, Dream's maskgit_plus)
  kMargin,           ///< probability of the best token less that of the second (Dream's topk_margin)
  kNegativeEntropy,  ///< sum of p ln p (Dream's entropy)
};

/// The distribution in which the confidence is measured.
enum class ConfidenceSource : uint8_t {
  kRawLogits,  ///< softmax of the logits, without temperature or filters (LLaDA)
  kTempered,   ///< softmax of the logits at the rule's temperature, without filters (SDAR)
  kSampled,  ///< the distribution that the token was sampled from (Dream); at temperature 0: the logits after
             ///< the filters
};

/// A change of one token's logit, applied first: l / factor if l > 0, else l * factor (the repetition penalty
/// of Keskar et al. 2019, arXiv 1909.05858); then + offset.
struct LogitAdjustment {
  TokenId token = 0;
  float factor = 1;  ///< above 0
  float offset = 0;  ///< finite

  bool operator==(const LogitAdjustment&) const = default;
};

/// How the tokens of a request are sampled.
struct SamplingRule {
  float temperature = 0;  ///< 0: the best token, ties to the lowest id
  bool draws = true;      ///< false: takes the best token, but measures in the distribution of `temperature`
  float top_p = 1;        ///< keep the likeliest tokens until their total probability exceeds top_p; (0, 1]
  int32_t top_k = 0;      ///< keep the k likeliest tokens, with ties; 0: all
  float min_p = 0;        ///< keep tokens with at least this fraction of the highest probability; [0, 1)
  ConfidenceMeasure measure = ConfidenceMeasure::kProbability;
  ConfidenceSource source = ConfidenceSource::kRawLogits;
  std::vector<LogitAdjustment> adjusted;  ///< each token at most once
  std::vector<TokenId> forbidden;         ///< logits set to -infinity right after the adjustments
  std::vector<TokenId> undrawn;           ///< never sampled, but counted in the confidence's softmax
  std::vector<TokenId> unsure;            ///< logits set to -infinity before the confidence, after the sample
  std::vector<TokenId> listed;            ///< tokens of RowStatistics::listed_logprobs
  bool finds_second = false;              ///< whether to compute RowStatistics::second_token
  bool measures_all = false;              ///< whether to always compute RowStatistics::entropy and margin

  /// Whether filters exclude less likely tokens.
  bool filters() const { return top_p < 1 || top_k > 0 || min_p > 0; }

  bool operator==(const SamplingRule&) const = default;
};

struct RowStatistics {
  TokenId token = 0;         ///< -1: the pass has evicted the row (MaskEviction), and nothing else is set
  double confidence = 0;     ///< confidence by the rule's measure; never NaN
  float best_logit = 0;      ///< the largest logit that may be sampled, before filters
  TokenId best_token = 0;    ///< the most likely token, ties to the lowest id
  TokenId second_token = 0;  ///< the second-best token that may be sampled, if SamplingRule::finds_second
  // The token LogitRow::scored, if one was given:
  int32_t scored_rank =
      0;  ///< number of samplable tokens before it: with larger logits, or equal ones and lower ids
  float scored_logit = 0;
  double scored_probability = 0;  ///< in the confidence's distribution
  // In the confidence's distribution, if SamplingRule::measures_all:
  double entropy = 0;  ///< nats
  double margin = 0;   ///< the largest probability less the second
  /// [SamplingRule::listed.size()] natural logarithms of the listed tokens' probabilities in that
  /// distribution; -infinity for probability 0.
  std::vector<double> listed_logprobs = {};
  /// The likeliest samplable tokens in that distribution, ties to the lowest id, with the natural logarithms
  /// of their probabilities: LogitRow::num_likeliest, or fewer if fewer have a probability.
  std::vector<std::pair<TokenId, double>> likeliest = {};
  bool is_finite = true;  ///< whether every logit of the model was a finite number

  bool operator==(const RowStatistics&) const = default;
};

/// Samples a token and measures it. Sampling is Gumbel-max in double, argmax(l / T - ln(-ln u)), which
/// samples exactly from softmax(l / T). It equals LLaDA's published sampler, exp(l) / (-ln u)^T (arXiv
/// 2409.02908 explains why double).
///   logits  [vocab] f32, overwritten     noise  one number per token id
///   scored, num_likeliest  as LogitRow
/// If keeps_logits(rule, num_likeliest), overwrites only the forbidden tokens' logits.
RowStatistics draw(const KernelTable& kernels, const SamplingRule& rule, const RngStream& noise,
                   std::span<float> logits, TokenId scored = -1, int32_t num_likeliest = 0);

bool keeps_logits(const SamplingRule& rule, int32_t num_likeliest);

/// Changes the logits of SamplingRule::adjusted; draw() calls it first.
void adjust_logits(const SamplingRule& rule, std::span<float> logits);

/// Number of rows whose logits are computed together: enough to reuse the head's weights, at most about 128
/// MiB.
int64_t head_chunk_rows(int64_t vocab);

/// Classifier-free guidance of a row: u + (guidance + 1) * (l - u), where u are the logits of the same row
/// without the prompt. Soft cap and scale have been applied to both.
///   unconditional  [logits.size()]
void apply_guidance(const float* unconditional, float guidance, std::span<float> logits);

}  // namespace lacuna
