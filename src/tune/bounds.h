// Bounds on the risk, the mean loss over all prompts of the same kind, from the losses of independent
// prompts. Losses lie in [0, 1]. If the risk is above the tested one, a p-value is at most u with probability
// at most u, for any distribution of the losses. An upper bound is above the risk with the requested
// confidence. Sources: Clopper and Pearson 1934 (binomial); Bates et al., arXiv 2101.02703, section 3.1
// (Hoeffding-Bentkus).
#pragma once

#include <cstdint>

namespace lacuna {

/// Sum of the losses of some prompts.
struct LossSum {
  int64_t prompts = 0;
  double losses = 0;  ///< in [0, prompts]

  double mean() const { return prompts > 0 ? losses / static_cast<double>(prompts) : 0; }
  bool operator==(const LossSum&) const = default;
};

enum class LossKind : uint8_t {
  kBinary,   ///< each loss is 0 or 1: exact binomial test
  kBounded,  ///< each loss lies in [0, 1]: Hoeffding-Bentkus
};

/// Maximum number of prompts for the functions below.
inline constexpr int64_t kMaxPrompts = 10'000'000;

/// P(X <= successes) of X ~ Binomial(trials, probability).
///   trials  0 to kMaxPrompts     probability  in [0, 1]
double binomial_cdf(int64_t successes, int64_t trials, double probability);

/// p-value of the hypothesis that the risk is at least `risk`. Small if the losses are too low for that.
///   risk  in (0, 1)
double p_value(LossKind kind, const LossSum& sum, double risk);

/// p-value of the opposite hypothesis, that the risk is at most `risk`. Small if the losses are too high for
/// that.
double p_value_of_safety(LossKind kind, const LossSum& sum, double risk);

/// The smallest risk that the losses rule out at this level: with probability 1 - level the true risk is
/// below it. 1 without prompts.
///   level  in (0, 1): 1 - confidence
double upper_bound(LossKind kind, const LossSum& sum, double level);

/// The largest risk that the losses rule out from below at this level: with probability 1 - level the true
/// risk is above it. 0 without prompts.
///   level  in (0, 1): 1 - confidence
double lower_bound(LossKind kind, const LossSum& sum, double level);

/// Smallest number of prompts that has a p-value of at most `level` for this risk without any loss: fewer
/// prompts cannot certify the risk. The same for both kinds.
int64_t prompts_needed(double risk, double level);

}  // namespace lacuna
