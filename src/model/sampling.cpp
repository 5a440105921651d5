#include "model/sampling.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <utility>

namespace lacuna {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

void forbid(std::span<const TokenId> tokens, std::span<float> logits) {
  for (const TokenId token : tokens) logits[static_cast<size_t>(token)] = kNever;
}

/// argmax(l / T + g) with g = -ln(-ln u), u uniform by token.
TokenId gumbel_argmax(std::span<const float> logits, float temperature, TokenId likeliest,
                      const RngStream& noise) {
  const double inverse = 1.0 / temperature;
  const auto value_of = [&](TokenId token) {
    const double u = noise.uniform(static_cast<uint64_t>(token));
    return logits[static_cast<size_t>(token)] * inverse - std::log(-std::log(u));
  };
  TokenId best = likeliest;
  double best_value = value_of(likeliest);
  for (TokenId token = 0; token < static_cast<TokenId>(logits.size()); ++token) {
    // -ln u >= 1 - u, so g <= -ln(1 - u). If u begins with z one bits, this is at most (z + 1) ln 2, which
    // rules out nearly every token without computing logarithms.
    const int leading_ones = std::countl_one(noise.bits(static_cast<uint64_t>(token)));
    const double bound =
        logits[static_cast<size_t>(token)] * inverse + (leading_ones + 1) * std::numbers::ln2;
    if (bound < best_value) continue;
    const double value = value_of(token);
    if (value > best_value || (value == best_value && token < best)) {
      best = token;
      best_value = value;
    }
  }
  return best;
}

/// Sets all logits to -infinity except those that top_p, top_k and min_p keep.
void keep_likeliest(const SamplingRule& rule, float max, double exp_sum, std::span<float> logits) {
  for (float& logit : logits) {  // NaN cannot be sorted
    if (std::isnan(logit)) logit = kNever;
  }
  if (rule.min_p > 0) {
    const auto least = static_cast<float>(max + std::log(static_cast<double>(rule.min_p)));
    for (float& logit : logits) {
      if (logit < least) logit = kNever;
    }
    if (rule.top_p >= 1 && rule.top_k <= 0) return;
  }
  thread_local std::vector<TokenId> order;
  order.resize(logits.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<TokenId>(i);
  const auto likelier = [&](TokenId a, TokenId b) {
    const float x = logits[static_cast<size_t>(a)];
    const float y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };

  // Sort from the top only as far as needed.
  size_t sorted = 0;
  const auto sort_up_to = [&](size_t count) {
    count = std::min(count, order.size());
    const auto middle = order.begin() + static_cast<std::ptrdiff_t>(count);
    std::partial_sort(order.begin() + static_cast<std::ptrdiff_t>(sorted), middle, order.end(), likelier);
    sorted = count;
  };
  const auto logit_at = [&](size_t rank) { return logits[static_cast<size_t>(order[rank])]; };

  size_t kept = logits.size();
  if (rule.top_p < 1) {
    double below = 0;  // total probability of the tokens before this rank
    for (kept = 0; kept < order.size() && below <= rule.top_p; ++kept) {
      if (kept == sorted) sort_up_to(std::max<size_t>(64, 4 * sorted));
      below += std::exp(static_cast<double>(logit_at(kept)) - max) / exp_sum;
    }
  }
  if (rule.top_k > 0) {
    const auto k = std::min(static_cast<size_t>(rule.top_k), order.size());
    if (sorted < k) sort_up_to(k);
    const float kth = logit_at(k - 1);
    size_t as_likely = k;  // ties with the k-th stay
    while (as_likely < kept) {
      if (as_likely == sorted) sort_up_to(2 * sorted);
      if (logit_at(as_likely) < kth) break;
      ++as_likely;
    }
    kept = std::min(kept, as_likely);
  }
  for (size_t rank = kept; rank < order.size(); ++rank) logits[static_cast<size_t>(order[rank])] = kNever;
}

/// The softmax of a row of logits; its sums are computed once for all measures.
class Posterior {
 public:
  Posterior(const KernelTable& kernels, std::span<const float> logits)
      : kernels_(kernels),
        logits_(logits),
        best_(kernels.max_index(logits.data(), count())),
        sums_(kernels.exp_sums(logits.data(), count(), best_.value)) {}

  double probability(TokenId token) const { return probability_of(logits_[static_cast<size_t>(token)]); }

  double log_probability(TokenId token) const {
    return static_cast<double>(logits_[static_cast<size_t>(token)]) - best_.value - std::log(sums_.sum);
  }

  double confidence(ConfidenceMeasure measure, TokenId token) const {
    switch (measure) {
      case ConfidenceMeasure::kProbability:
        return probability(token);
      case ConfidenceMeasure::kNegativeEntropy:
        return sums_.weighted / sums_.sum - std::log(sums_.sum);
      case ConfidenceMeasure::kMargin:
        return probability_of(best_.value) - probability_of(second());
    }
    return 0;
  }

 private:
  int64_t count() const { return static_cast<int64_t>(logits_.size()); }

  double probability_of(float logit) const {
    return std::exp(static_cast<double>(logit) - best_.value) / sums_.sum;
  }

  /// The second-largest logit.
  float second() const {
    float second = kNever;
    if (best_.index > 0) second = kernels_.max_index(logits_.data(), best_.index).value;
    if (best_.index + 1 < count()) {
      const float* after = logits_.data() + best_.index + 1;
      second = std::max(second, kernels_.max_index(after, count() - best_.index - 1).value);
    }
    return second;
  }

  const KernelTable& kernels_;
  std::span<const float> logits_;
  MaxIndex best_;
  ExpSums sums_;
};

/// Whether no logit is infinite or NaN. Tests exponent bits, in a loop that compilers vectorize.
bool are_finite(std::span<const float> logits) {
  constexpr uint32_t kExponent = 0x7F800000;
  uint32_t found = 0;
  for (const float logit : logits) {
    const uint32_t is_special = (std::bit_cast<uint32_t>(logit) & kExponent) == kExponent ? 1 : 0;
    found |= is_special;
  }
  return found == 0;
}

/// The second-best token, ties to the lowest id.
TokenId second_best(const KernelTable& kernels, std::span<float> logits, int64_t best) {
  const float taken_out = std::exchange(logits[static_cast<size_t>(best)], kNever);
  const MaxIndex second = kernels.max_index(logits.data(), static_cast<int64_t>(logits.size()));
  logits[static_cast<size_t>(best)] = taken_out;
  return static_cast<TokenId>(second.index);
}

void score(std::span<const float> logits, TokenId scored, RowStatistics& result) {
  result.scored_logit = logits[static_cast<size_t>(scored)];
  result.scored_rank = 0;
  if (std::isnan(result.scored_logit)) result.scored_logit = kNever;
  for (TokenId token = 0; token < static_cast<TokenId>(logits.size()); ++token) {
    const float logit = logits[static_cast<size_t>(token)];
    const bool ties_before = logit == result.scored_logit && token < scored && logit > kNever;
    const bool is_before = logit > result.scored_logit || ties_before;
    result.scored_rank += is_before ? 1 : 0;
  }
}

/// Logits of tokens that are not sampled but count in the confidence. They are removed from the row while its
/// token is sampled.
class SetAside {
 public:
  void take(std::span<const TokenId> tokens, std::span<float> logits) {
    tokens_ = tokens;
    values_.clear();
    for (const TokenId token : tokens) values_.push_back(logits[static_cast<size_t>(token)]);
    forbid(tokens, logits);
  }
  void divide(float temperature) {
    for (float& value : values_) value /= temperature;
  }
  void put_back(std::span<float> logits) const {
    for (size_t i = 0; i < values_.size(); ++i) logits[static_cast<size_t>(tokens_[i])] = values_[i];
  }

 private:
  std::span<const TokenId> tokens_;
  std::vector<float> values_;
};

void divide(std::span<float> logits, float temperature) {
  for (float& logit : logits) logit /= temperature;
}

/// Samples a row's token, and leaves in `logits` those that the confidence is measured in.
void sample_token(const KernelTable& kernels, const SamplingRule& rule, const RngStream& noise,
                  std::span<float> logits, SetAside& undrawn, RowStatistics& result) {
  const bool filters = rule.filters();
  const bool raw = rule.source != ConfidenceSource::kSampled;
  float temperature = rule.temperature;
  if (rule.source == ConfidenceSource::kTempered && temperature > 0) {
    divide(logits, temperature);
    undrawn.divide(temperature);
    temperature = 1;
  }

  // Only a kSampled confidence counts filters; for others, the filters change a copy.
  thread_local std::vector<float> copy;
  std::span<float> sampled = logits;
  if (raw && filters) {
    copy.assign(logits.begin(), logits.end());
    sampled = copy;
  }
  if (temperature > 0 && (!raw || filters)) {
    divide(sampled, temperature);
    temperature = 1;
  }
  const auto count = static_cast<int64_t>(logits.size());
  const MaxIndex likeliest = kernels.max_index(sampled.data(), count);
  if (filters) {
    const ExpSums sums = kernels.exp_sums(sampled.data(), count, likeliest.value);
    keep_likeliest(rule, likeliest.value, sums.sum, sampled);
  }
  result.token = static_cast<TokenId>(likeliest.index);
  result.best_token = result.token;
  if (temperature > 0 && rule.draws) result.token = gumbel_argmax(sampled, temperature, result.token, noise);

  if (!raw && filters) return;  // with filters, undrawn tokens do not count in the confidence
  if (!raw && rule.temperature > 0) undrawn.divide(rule.temperature);
  undrawn.put_back(logits);
}

/// Tokens with the `count` largest logits, ties to the lowest id, except logits of -infinity and NaN.
std::vector<TokenId> largest(std::span<const float> logits, size_t count) {
  const auto larger = [&](TokenId a, TokenId b) {
    const float x = logits[static_cast<size_t>(a)];
    const float y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  std::vector<TokenId> found;  // a heap with the smallest logit at the front
  for (TokenId token = 0; token < static_cast<TokenId>(logits.size()); ++token) {
    if (!(logits[static_cast<size_t>(token)] > kNever)) continue;
    if (found.size() == count) {
      if (!larger(token, found.front())) continue;
      std::pop_heap(found.begin(), found.end(), larger);
      found.pop_back();
    }
    found.push_back(token);
    std::push_heap(found.begin(), found.end(), larger);
  }
  std::sort_heap(found.begin(), found.end(), larger);
  return found;
}

}  // namespace

RowStatistics draw(const KernelTable& kernels, const SamplingRule& rule, const RngStream& noise,
                   std::span<float> logits, TokenId scored, int32_t num_likeliest) {
  RowStatistics result;
  result.is_finite = are_finite(logits);
  adjust_logits(rule, logits);
  forbid(rule.forbidden, logits);
  thread_local SetAside undrawn;
  undrawn.take(rule.undrawn, logits);
  const MaxIndex best = kernels.max_index(logits.data(), static_cast<int64_t>(logits.size()));
  result.best_logit = best.value;
  if (rule.finds_second) result.second_token = second_best(kernels, logits, best.index);
  if (scored >= 0) score(logits, scored, result);
  sample_token(kernels, rule, noise, logits, undrawn, result);
  forbid(rule.unsure, logits);
  const Posterior posterior(kernels, logits);
  result.confidence = posterior.confidence(rule.measure, result.token);
  if (rule.measures_all) {
    result.entropy = -posterior.confidence(ConfidenceMeasure::kNegativeEntropy, result.token);
    result.margin = posterior.confidence(ConfidenceMeasure::kMargin, result.token);
  }
  if (scored >= 0) result.scored_probability = posterior.probability(scored);
  for (const TokenId token : rule.listed) result.listed_logprobs.push_back(posterior.log_probability(token));
  if (num_likeliest > 0) {
    forbid(rule.undrawn, logits);
    for (const TokenId token : largest(logits, static_cast<size_t>(num_likeliest)))
      result.likeliest.emplace_back(token, posterior.log_probability(token));
  }
  // Overflowed logits must not break the order of candidates.
  if (std::isnan(result.confidence)) result.confidence = std::numeric_limits<double>::lowest();
  return result;
}

bool keeps_logits(const SamplingRule& rule, int32_t num_likeliest) {
  if (!rule.adjusted.empty()) return false;
  const bool filters = rule.filters();
  const bool is_raw = rule.source == ConfidenceSource::kRawLogits;
  return rule.unsure.empty() && num_likeliest == 0 && (is_raw || (rule.temperature <= 0 && !filters));
}

void adjust_logits(const SamplingRule& rule, std::span<float> logits) {
  for (const auto& [token, factor, offset] : rule.adjusted) {
    float& logit = logits[static_cast<size_t>(token)];
    logit = (logit > 0 ? logit / factor : logit * factor) + offset;
  }
}

int64_t head_chunk_rows(int64_t vocab) {
  constexpr int64_t kMaxFloats = int64_t{1} << 25;
  return std::clamp<int64_t>(kMaxFloats / vocab, 16, 256);
}

void apply_guidance(const float* unconditional, float guidance, std::span<float> logits) {
  for (size_t n = 0; n < logits.size(); ++n) {
    logits[n] = unconditional[n] + (guidance + 1) * (logits[n] - unconditional[n]);
  }
}

}  // namespace lacuna
