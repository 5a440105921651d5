#include "tune/bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace lacuna {
namespace {

/// ln P(X = successes). The binomial coefficient is computed by lgamma. Its relative error of about 1e-16
/// gives one of 1e-9 in the probability at kMaxPrompts and of 1e-12 at 10,000.
double log_binomial_mass(int64_t successes, int64_t trials, double probability) {
  const auto k = static_cast<double>(successes);
  const auto n = static_cast<double>(trials);
  return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) + k * std::log(probability) +
         (n - k) * std::log1p(-probability);
}

/// P(X <= successes) for successes below the mean: terms fall from the last one on.
double lower_tail(int64_t successes, int64_t trials, double probability) {
  const double odds = (1 - probability) / probability;
  double sum = 1;
  double term = 1;  // relative to the mass at `successes`
  for (int64_t k = successes; k > 0; --k) {
    term *= static_cast<double>(k) / static_cast<double>(trials - k + 1) * odds;
    sum += term;
    if (term < sum * std::numeric_limits<double>::epsilon() / 8) break;
  }
  return std::min(1.0, std::exp(log_binomial_mass(successes, trials, probability)) * sum);
}

/// Relative entropy of two Bernoulli distributions, nats.
double bernoulli_divergence(double of, double from) {
  const double hit = of > 0 ? of * std::log(of / from) : 0;
  const double miss = of < 1 ? (1 - of) * std::log((1 - of) / (1 - from)) : 0;
  return hit + miss;
}

double hoeffding_bentkus(const LossSum& sum, double risk) {
  const double mean = std::min(sum.mean(), risk);
  const double hoeffding = std::exp(-static_cast<double>(sum.prompts) * bernoulli_divergence(mean, risk));
  const auto rounded = static_cast<int64_t>(std::ceil(sum.losses));
  const double bentkus = std::exp(1.0) * binomial_cdf(rounded, sum.prompts, risk);
  return std::min({1.0, hoeffding, bentkus});
}

void check(const LossSum& sum) {
  expects(sum.prompts >= 0 && sum.prompts <= kMaxPrompts, "bounds: the number of prompts is in range");
  expects(sum.losses >= 0 && sum.losses <= static_cast<double>(sum.prompts), "bounds: losses lie in [0, 1]");
}

/// Sum of 1 - loss over the prompts.
LossSum complement(const LossSum& sum) {
  const auto prompts = static_cast<double>(sum.prompts);
  return {sum.prompts, std::clamp(prompts - sum.losses, 0.0, prompts)};
}

}  // namespace

double binomial_cdf(int64_t successes, int64_t trials, double probability) {
  expects(trials >= 0 && trials <= kMaxPrompts, "binomial_cdf: the number of trials is in range");
  expects(probability >= 0 && probability <= 1, "binomial_cdf: the probability lies in [0, 1]");
  if (successes < 0) return 0;
  if (successes >= trials || probability <= 0) return 1;
  if (probability >= 1) return 0;
  const double mean = static_cast<double>(trials) * probability;
  if (static_cast<double>(successes) <= mean) return lower_tail(successes, trials, probability);
  return 1 - lower_tail(trials - successes - 1, trials, 1 - probability);
}

double p_value(LossKind kind, const LossSum& sum, double risk) {
  check(sum);
  expects(risk > 0 && risk < 1, "p_value: the risk lies in (0, 1)");
  if (sum.prompts == 0) return 1;
  if (kind == LossKind::kBounded) return hoeffding_bentkus(sum, risk);
  return binomial_cdf(std::llround(sum.losses), sum.prompts, risk);
}

double p_value_of_safety(LossKind kind, const LossSum& sum, double risk) {
  return p_value(kind, complement(sum), 1 - risk);
}

double upper_bound(LossKind kind, const LossSum& sum, double level) {
  check(sum);
  expects(level > 0 && level < 1, "upper_bound: the level lies in (0, 1)");
  if (sum.prompts == 0) return 1;
  // The p-value falls as the risk grows. The upper end always satisfies it, so rounding errs to the safe
  // side.
  double low = 0;
  double high = 1;
  while (true) {
    const double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) return high;
    (p_value(kind, sum, middle) <= level ? high : low) = middle;
  }
}

double lower_bound(LossKind kind, const LossSum& sum, double level) {
  check(sum);
  return 1 - upper_bound(kind, complement(sum), level);
}

int64_t prompts_needed(double risk, double level) {
  expects(risk > 0 && risk < 1 && level > 0 && level < 1, "prompts_needed: risk and level lie in (0, 1)");
  const double needed = std::ceil(std::log(level) / std::log1p(-risk) * (1 - 1e-12));
  return std::max<int64_t>(1, static_cast<int64_t>(std::min(needed, 1e18)));
}

}  // namespace lacuna
