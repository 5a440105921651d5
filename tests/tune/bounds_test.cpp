#include "tune/bounds.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lacuna::bounds_test {
namespace {

/// P(X <= successes), term by term.
double summed_cdf(int successes, int trials, double probability) {
  double sum = 0;
  double ways = 1;
  for (int k = 0; k <= successes; ++k) {
    sum += ways * std::pow(probability, k) * std::pow(1 - probability, trials - k);
    ways = ways * (trials - k) / (k + 1);
  }
  return sum;
}

TEST(BinomialCdf, IsTheSumOfItsTerms) {
  for (const int trials : {1, 5, 30}) {
    for (const double probability : {0.02, 0.3, 0.5, 0.9}) {
      for (int successes = 0; successes < trials; ++successes) {
        EXPECT_NEAR(binomial_cdf(successes, trials, probability), summed_cdf(successes, trials, probability),
                    1e-12)
            << successes << " of " << trials << " at " << probability;
      }
    }
  }
}

TEST(BinomialCdf, IsDefinedAtTheEdges) {
  EXPECT_EQ(binomial_cdf(-1, 10, 0.5), 0);
  EXPECT_EQ(binomial_cdf(10, 10, 0.5), 1);
  EXPECT_EQ(binomial_cdf(0, 0, 0.5), 1);
  EXPECT_EQ(binomial_cdf(3, 10, 0), 1);
  EXPECT_EQ(binomial_cdf(3, 10, 1), 0);
}

TEST(PValue, OfNoLossesIsThePowerOfTheRisk) {
  for (const LossKind kind : {LossKind::kBinary, LossKind::kBounded}) {
    EXPECT_NEAR(p_value(kind, {114, 0}, 0.02), std::pow(0.98, 114), 1e-12);
  }
}

TEST(PValue, IsOneWithoutPromptsOrWithLossesAtTheRisk) {
  EXPECT_EQ(p_value(LossKind::kBinary, {0, 0}, 0.02), 1);
  EXPECT_EQ(p_value(LossKind::kBounded, {0, 0}, 0.02), 1);
  EXPECT_EQ(p_value(LossKind::kBounded, {100, 2}, 0.02), 1);
  EXPECT_EQ(p_value(LossKind::kBounded, {100, 50}, 0.02), 1);
  EXPECT_GT(p_value(LossKind::kBinary, {100, 2}, 0.02), 0.5);
}

TEST(PValue, GrowsWithLossesAndFallsWithTheRisk) {
  for (const LossKind kind : {LossKind::kBinary, LossKind::kBounded}) {
    double before = 0;
    for (int losses = 0; losses <= 200; ++losses) {
      const double p = p_value(kind, {200, static_cast<double>(losses)}, 0.3);
      EXPECT_GE(p, before - 1e-15);
      before = p;
    }
    before = 1;
    for (double risk = 0.01; risk < 1; risk += 0.01) {
      const double p = p_value(kind, {200, 20}, risk);
      EXPECT_LE(p, before + 1e-15);
      before = p;
    }
  }
}

TEST(PValueOfSafety, IsSmallWhereLossesAreTooMany) {
  EXPECT_NEAR(p_value_of_safety(LossKind::kBinary, {8, 1}, 0.02), 1 - std::pow(0.98, 8), 1e-12);
  EXPECT_LT(p_value_of_safety(LossKind::kBinary, {8, 3}, 0.02), 1e-3);
  EXPECT_EQ(p_value_of_safety(LossKind::kBinary, {8, 0}, 0.02), 1);
  EXPECT_LT(p_value_of_safety(LossKind::kBounded, {50, 40}, 0.02), 1e-6);
}

TEST(UpperBound, IsTheSmallestRiskThatIsRuledOut) {
  for (const LossKind kind : {LossKind::kBinary, LossKind::kBounded}) {
    for (const double losses : {0.0, 1.0, 2.5, 30.0}) {
      const LossSum sum{120, kind == LossKind::kBinary ? std::floor(losses) : losses};
      const double bound = upper_bound(kind, sum, 0.1);
      EXPECT_LE(p_value(kind, sum, bound), 0.1);
      EXPECT_GT(p_value(kind, sum, bound * (1 - 1e-9)), 0.1);
      EXPECT_GT(bound, sum.mean());
    }
  }
}

TEST(UpperBound, OfNoLossesIsTheRuleOfTheLogarithm) {
  EXPECT_NEAR(upper_bound(LossKind::kBinary, {100, 0}, 0.05), 1 - std::pow(0.05, 0.01), 1e-12);
}

TEST(UpperBound, IsOneWhereNothingIsKnown) {
  EXPECT_EQ(upper_bound(LossKind::kBinary, {0, 0}, 0.1), 1);
  EXPECT_EQ(upper_bound(LossKind::kBinary, {20, 20}, 0.1), 1);
}

TEST(LowerBound, IsTheLargestRiskThatIsRuledOutFromBelow) {
  // Clopper-Pearson, two-sided 95%: 3 of 20 is 0.0321 to 0.3789.
  EXPECT_NEAR(lower_bound(LossKind::kBinary, {20, 3}, 0.025), 0.03207, 1e-5);
  EXPECT_NEAR(upper_bound(LossKind::kBinary, {20, 3}, 0.025), 0.37893, 1e-5);
  for (const LossKind kind : {LossKind::kBinary, LossKind::kBounded}) {
    EXPECT_NEAR(lower_bound(kind, {20, 0}, 0.025), 0, 1e-12);
    EXPECT_EQ(lower_bound(kind, {0, 0}, 0.025), 0);
    EXPECT_LT(lower_bound(kind, {20, 3}, 0.025), 0.15);
  }
  EXPECT_NEAR(lower_bound(LossKind::kBinary, {8, 8}, 0.1), std::pow(0.1, 1.0 / 8), 1e-12);
}

TEST(PromptsNeeded, IsTheFirstNumberThatCertifies) {
  for (const double risk : {0.001, 0.02, 0.05, 0.5}) {
    for (const double level : {0.1, 0.05, 0.001}) {
      const int64_t needed = prompts_needed(risk, level);
      EXPECT_LE(p_value(LossKind::kBinary, {needed, 0}, risk), level);
      if (needed > 1) {
        EXPECT_GT(p_value(LossKind::kBinary, {needed - 1, 0}, risk), level);
      }
    }
  }
  EXPECT_EQ(prompts_needed(0.02, 0.1), 114);
}

}  // namespace
}  // namespace lacuna::bounds_test
