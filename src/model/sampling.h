// From one row of logits to a token and how sure the model is of it. A row is reduced as soon as it is
// computed, so the logits of all rows never exist at once.
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

/// Which distribution the confidence is taken from.
enum class ConfidenceSource : uint8_t {
  kRawLogits,  ///< softmax of the logits, without temperature or filters (LLaDA)
  kTempered,   ///< softmax of the logits at the rule's temperature, without filters (SDAR)
  kSampled,    ///< the distribution that the token was sampled from (Dream); at temperature 0, after the
               ///< filters
};

/// A change of one token's logit before anything else is done with a row: l / factor where l is above 0, l *
/// factor elsewhere (the repetition penalty of Keskar et al. 2019, arXiv 1909.05858); then + offset.
struct LogitAdjustment {
  TokenId token = 0;
  float factor = 1;  ///< above 0
  float offset = 0;  ///< finite

  bool operator==(const LogitAdjustment&) const = default;
};

/// How the tokens of a request are sampled.
struct SamplingRule {
  float temperature = 0;  ///< 0: the best token, ties to the lowest id
  bool draws = true;      ///< false: the best token, too, but the distribution is that of `temperature`
  float top_p = 1;    ///< keep the likeliest tokens up to the first that takes their sum above top_p; (0, 1]
  int32_t top_k = 0;  ///< keep tokens as likely as the k-th; 0: all
  float min_p = 0;    ///< keep tokens at least this times as likely as the likeliest; [0, 1)
  ConfidenceMeasure measure = ConfidenceMeasure::kProbability;
  ConfidenceSource source = ConfidenceSource::kRawLogits;
  std::vector<LogitAdjustment> adjusted;  ///< each token at most once
  std::vector<TokenId> forbidden;         ///< logits set to -infinity before anything but the adjustments
  std::vector<TokenId> undrawn;           ///< never sampled, but counted in the confidence's softmax
  std::vector<TokenId> unsure;            ///< logits set to -infinity before the confidence, after the sample
  std::vector<TokenId> listed;            ///< RowStatistics::listed_logprobs is wanted of these
  bool finds_second = false;              ///< RowStatistics::second_token is wanted
  bool measures_all = false;  ///< RowStatistics::entropy and margin are computed, whatever `measure` is

  /// Whether some tokens cannot be sampled because others are likelier.
  bool filters() const { return top_p < 1 || top_k > 0 || min_p > 0; }

  bool operator==(const SamplingRule&) const = default;
};

struct RowStatistics {
  TokenId token = 0;
  double confidence = 0;     ///< confidence by the rule's measure; never NaN
  float best_logit = 0;      ///< the largest that may be sampled
  TokenId best_token = 0;    ///< the most likely token, ties to the lowest id
  TokenId second_token = 0;  ///< the best that may be sampled but that one, if SamplingRule::finds_second
  // The token LogitRow::scored, if one was given:
  int32_t scored_rank =
      0;  ///< tokens that may be sampled and come before it: larger logits, or equal and a lower id
  float scored_logit = 0;
  double scored_probability = 0;  ///< in the distribution that the confidence is measured in
  // The distribution that the confidence is measured in, if SamplingRule::measures_all:
  double entropy = 0;  ///< nats
  double margin = 0;   ///< the largest probability less the second
  /// [SamplingRule::listed.size()] natural logarithms of their probabilities in that distribution; -infinity
  /// for a probability of 0.
  std::vector<double> listed_logprobs = {};
  /// The likeliest tokens in that distribution that may be sampled, ties to the lowest id, with the natural
  /// logarithms of their probabilities: LogitRow::num_likeliest, or as many as have a probability.
  std::vector<std::pair<TokenId, double>> likeliest = {};
  bool is_finite = true;  ///< whether every logit of the model was a finite number

  bool operator==(const RowStatistics&) const = default;
};

/// Samples a token and measures it. Sampling is Gumbel-max in double, argmax(l / T - ln(-ln u)): for LLaDA
/// that is the published sampler, exp(l) / (-ln u)^T (arXiv 2409.02908 on why double), for the others an
/// exact sample from softmax(l / T).
///   logits  [vocab] f32, overwritten     noise  one number per token id
///   scored, num_likeliest  as LogitRow
/// Where keeps_logits(rule, num_likeliest), only the forbidden tokens' logits are overwritten.
RowStatistics draw(const KernelTable& kernels, const SamplingRule& rule, const RngStream& noise,
                   std::span<float> logits, TokenId scored = -1, int32_t num_likeliest = 0);

bool keeps_logits(const SamplingRule& rule, int32_t num_likeliest);

/// Changes the logits of SamplingRule::adjusted. `draw` does it first.
void adjust_logits(const SamplingRule& rule, std::span<float> logits);

/// Rows whose logits exist at a time: enough to use the head's weights well, at most 128 MiB.
int64_t head_chunk_rows(int64_t vocab);

/// Classifier-free guidance of a row: u + (guidance + 1) * (l - u), where u are the logits of the same row
/// without the prompt. Both have their soft cap and scale by then.
///   unconditional  [logits.size()]
void apply_guidance(const float* unconditional, float guidance, std::span<float> logits);

}  // namespace lacuna
