#include "model/token_classes.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lacuna {
namespace {

constexpr float kNoLogit = -std::numeric_limits<float>::infinity();

void find_best_tokens(const TokenClasses& classes, std::span<const float> logits,
                      std::span<ClassStatistics> values) {
  for (size_t token = 0; token < logits.size(); ++token) {
    ClassStatistics& value = values[classes.of_token[token]];
    if (!(logits[token] > value.logit)) continue;
    value.logit = logits[token];
    value.token = static_cast<TokenId>(token);
  }
}

void sample_tokens(float temperature, const RngStream& noise, const TokenClasses& classes,
                   std::span<const float> logits, std::span<ClassStatistics> values) {
  const double inverse = 1.0 / temperature;
  std::vector<double> best(values.size(), -std::numeric_limits<double>::infinity());
  for (size_t token = 0; token < logits.size(); ++token) {
    const size_t each = classes.of_token[token];
    const double u = noise.uniform(token);
    const double key = logits[token] * inverse - std::log(-std::log(u));
    if (!(key > best[each])) continue;
    best[each] = key;
    values[each].logit = logits[token];
    values[each].token = static_cast<TokenId>(token);
  }
}

}  // namespace

void reduce_by_class(const KernelTable& kernels, const SamplingRule& rule, const RngStream* noise,
                     const TokenClasses& classes, std::span<float> logits,
                     std::span<ClassStatistics> values) {
  for (const TokenId token : rule.forbidden) logits[static_cast<size_t>(token)] = kNoLogit;
  std::fill(values.begin(), values.end(), ClassStatistics{-1, kNoLogit, 0});
  if (rule.temperature > 0 && noise != nullptr) {
    sample_tokens(rule.temperature, *noise, classes, logits, values);
  } else {
    find_best_tokens(classes, logits, values);
  }

  const auto count = static_cast<int64_t>(logits.size());
  const float max = kernels.max_index(logits.data(), count).value;
  const float inverse = rule.temperature > 0 ? 1 / rule.temperature : 1;
  std::vector<double> sums(values.size());
  for (size_t token = 0; token < logits.size(); ++token) {
    sums[classes.of_token[token]] += std::exp((logits[token] - max) * inverse);
  }
  for (size_t each = 0; each < values.size(); ++each) {
    values[each].log_sum = std::log(sums[each]) + double{max} * inverse;
  }
}

}  // namespace lacuna
