#include "model/token_classes.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lacuna {
namespace {

constexpr float kNoLogit = -std::numeric_limits<float>::infinity();
// Most tokens of a constraint are in one class, so independent partial sums avoid a serial dependency.
constexpr size_t kNumSums = 4;
constexpr size_t kKernelColumns = 16;  // softmax_numerators() needs a multiple of this

/// exp((logit - max) * scale) of each logit, in place; returns max.
float replace_by_numerators(const KernelTable& kernels, float scale, std::span<float> logits) {
  const size_t whole = logits.size() / kKernelColumns * kKernelColumns;
  const std::span<float> rest = logits.subspan(whole);
  const float max = kernels.max_index(logits.data(), static_cast<int64_t>(logits.size())).value;
  const float kernel_max =
      whole == 0 ? kNoLogit : kernels.max_index(logits.data(), static_cast<int64_t>(whole)).value;
  if (kernel_max == max) {
    thread_local std::vector<int32_t> all_visible;
    all_visible.resize(std::max(all_visible.size(), whole));
    kernels.softmax_numerators(logits.data(), all_visible.data(), static_cast<int64_t>(whole), 0, scale);
  } else {
    for (float& logit : logits.first(whole)) logit = std::exp((logit - max) * scale);
  }
  for (float& logit : rest) logit = std::exp((logit - max) * scale);
  return max;
}

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
  adjust_logits(rule, logits);
  for (const TokenId token : rule.forbidden) logits[static_cast<size_t>(token)] = kNoLogit;
  std::fill(values.begin(), values.end(), ClassStatistics{-1, kNoLogit, 0});
  if (rule.temperature > 0 && noise != nullptr) {
    sample_tokens(rule.temperature, *noise, classes, logits, values);
  } else {
    find_best_tokens(classes, logits, values);
  }

  const float inverse = rule.temperature > 0 ? 1 / rule.temperature : 1;
  const float max = replace_by_numerators(kernels, inverse, logits);
  std::vector<double> sums(kNumSums * values.size());
  for (size_t token = 0; token < logits.size(); ++token) {
    sums[token % kNumSums * values.size() + classes.of_token[token]] += logits[token];
  }
  for (size_t each = 0; each < values.size(); ++each) {
    double sum = 0;
    for (size_t i = 0; i < kNumSums; ++i) sum += sums[i * values.size() + each];
    values[each].log_sum = std::log(sum) + double{max} * inverse;
  }
}

}  // namespace lacuna
