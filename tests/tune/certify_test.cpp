#include "tune/certify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <random>
#include <vector>

namespace lacuna::certify_test {
namespace {

Promise promise_of(LossKind kind, double risk = 0.02, double confidence = 0.9) {
  return {kind, risk, confidence};
}

TEST(Certify, StopsAChainAtItsFirstFailure) {
  const std::vector<double> losses = {0, 0, 30, 0};
  std::vector<size_t> asked;
  const Certification result =
      certify(promise_of(LossKind::kBinary), {{0, 1, 2, 3}}, 200, [&](size_t setting) {
        asked.push_back(setting);
        return LossSum{200, losses[setting]};
      });
  EXPECT_EQ(asked, (std::vector<size_t>{0, 1, 2}));
  ASSERT_EQ(result.tested.size(), 3U);
  EXPECT_TRUE(result.tested[0].certified);
  EXPECT_TRUE(result.tested[1].certified);
  EXPECT_FALSE(result.tested[2].certified);
  EXPECT_GT(result.tested[2].p_value, 0.99);
}

TEST(Certify, SharesTheLevelAmongChains) {
  const auto none = [](size_t) { return LossSum{114, 0}; };  // exactly enough for one chain
  EXPECT_TRUE(certify(promise_of(LossKind::kBinary), {{0}}, 114, none).tested.front().certified);
  const Certification two = certify(promise_of(LossKind::kBinary), {{0}, {1}}, 114, none);
  EXPECT_DOUBLE_EQ(two.level, 0.05);
  EXPECT_FALSE(two.tested[0].certified);
  EXPECT_FALSE(two.tested[1].certified);
}

TEST(Certify, BoundsOfCertifiedSettingsAreWithinTheRisk) {
  for (const LossKind kind : {LossKind::kBinary, LossKind::kBounded}) {
    const Certification result = certify(promise_of(kind, 0.05), {{0}}, 400, [](size_t) {
      return LossSum{400, 6};
    });
    ASSERT_TRUE(result.tested.front().certified);
    EXPECT_LE(upper_bound(kind, result.tested.front().sum, result.level), 0.05);
  }
}

TEST(Certify, NeverCertifiesATestThatEndedEarly) {
  const Certification result = certify(promise_of(LossKind::kBinary), {{0}}, 500, [](size_t) {
    return LossSum{400, 0};
  });
  EXPECT_FALSE(result.tested.front().certified);
  EXPECT_EQ(result.tested.front().p_value, 1);
}

TEST(MayStillPass, AgreesWithTheTest) {
  const Promise promise = promise_of(LossKind::kBinary);
  EXPECT_TRUE(may_still_pass(promise, {10, 0}, 200, 0.1));
  EXPECT_TRUE(may_still_pass(promise, {10, 1}, 200, 0.1));  // Bin(200, 0.02) <= 1 has probability 0.0894
  EXPECT_FALSE(may_still_pass(promise, {10, 2}, 200, 0.1));
}

TEST(AffordableChains, AreThoseThatNoLossesCertify) {
  const Promise promise = promise_of(LossKind::kBinary);
  EXPECT_EQ(affordable_chains(promise, 113, 3), 0);
  EXPECT_EQ(affordable_chains(promise, 114, 3), 1);
  EXPECT_EQ(affordable_chains(promise, 149, 3), 2);
  EXPECT_EQ(affordable_chains(promise, 1000, 3), 3);
}

// Simulations. A prompt's difficulty is one uniform number; a setting of risk r loses where it is small, so
// that settings are as dependent as those of one model on the same prompts. Which settings break the promise
// is known.

constexpr int kRepetitions = 2000;

/// The allowed frequency and three standard deviations of it over the repetitions.
double allowed_frequency(double confidence) {
  const double level = 1 - confidence;
  return level + 3 * std::sqrt(level * (1 - level) / kRepetitions);
}

/// The difficulties of all prompts, in order, with their sums.
class Prompts {
 public:
  Prompts(int prompts, std::mt19937& random) {
    std::uniform_real_distribution<double> uniform;
    for (int i = 0; i < prompts; ++i) difficulties_.push_back(uniform(random));
    std::sort(difficulties_.begin(), difficulties_.end());
    std::partial_sum(difficulties_.begin(), difficulties_.end(), std::back_inserter(sums_));
  }

  /// Losses of a setting with this risk, at most 0.5. Bounded ones are spread over (0, 1] for twice as many
  /// prompts.
  LossSum losses(LossKind kind, double risk) const {
    const double share = kind == LossKind::kBinary ? risk : 2 * risk;
    const auto end = std::lower_bound(difficulties_.begin(), difficulties_.end(), share);
    const auto count = static_cast<size_t>(end - difficulties_.begin());
    const auto all = static_cast<int64_t>(difficulties_.size());
    if (kind == LossKind::kBinary) return {all, static_cast<double>(count)};
    return {all, count > 0 ? sums_[count - 1] / share : 0};
  }

 private:
  std::vector<double> difficulties_, sums_;
};

/// How often a promise is broken: some certified setting has a higher risk.
double frequency_of_broken_promises(const Promise& promise, const std::vector<double>& risks, size_t chains,
                                    int prompts, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Chain> order(chains);
  for (size_t setting = 0; setting < risks.size(); ++setting) order[setting % chains].push_back(setting);
  int broken = 0;
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    const Prompts sampled(prompts, random);
    bool breaks = false;
    const Certification result = certify(promise, order, prompts, [&](size_t setting) {
      return sampled.losses(promise.kind, risks[setting]);
    });
    for (const TestedSetting& test : result.tested) {
      breaks = breaks || (test.certified && risks[test.setting] > promise.risk);
    }
    broken += breaks ? 1 : 0;
  }
  return static_cast<double>(broken) / kRepetitions;
}

/// Risk curves with many settings just above what is allowed: the hardest case.
std::vector<std::vector<double>> risk_curves(double risk, size_t settings) {
  std::vector<double> rising, just_above(settings, risk * 1.0001), zigzag;
  for (size_t i = 0; i < settings; ++i) {
    rising.push_back(2 * risk * static_cast<double>(i + 1) / static_cast<double>(settings));
    zigzag.push_back(i % 2 == 0 ? risk * 0.5 : risk * 1.01);
  }
  return {rising, just_above, zigzag};
}

TEST(CertifySimulationSlow, BreaksThePromiseAtMostAsOftenAsTheConfidenceAllows) {
  for (const LossKind kind : {LossKind::kBinary, LossKind::kBounded}) {
    for (const int prompts : {50, 200, 1000}) {
      const Promise promise = promise_of(kind, prompts == 50 ? 0.1 : 0.05);
      for (const size_t settings : {size_t{1}, size_t{20}, size_t{500}}) {
        for (const size_t chains : {size_t{1}, std::min<size_t>(settings, 4)}) {
          uint32_t seed = 7;
          for (const std::vector<double>& risks : risk_curves(promise.risk, settings)) {
            EXPECT_LE(frequency_of_broken_promises(promise, risks, chains, prompts, ++seed),
                      allowed_frequency(promise.confidence))
                << prompts << " prompts, " << settings << " settings in " << chains << " chains";
          }
        }
      }
    }
  }
}

TEST(CertifySimulation, WouldNoticeChainsThatDoNotShareTheLevel) {
  // The check itself is able to fail: at a level that is four times too large the promise breaks too often.
  const std::vector<double> risks(4, 0.0501);
  Promise promise = promise_of(LossKind::kBinary, 0.05, 0.9);
  promise.confidence = 0.6;
  EXPECT_GT(frequency_of_broken_promises(promise, risks, 1, 200, 7), allowed_frequency(0.9));
}

TEST(CertifySimulation, CertifiesWhatIsSafe) {
  const std::vector<double> risks = {0.0, 0.001, 0.002};
  std::mt19937 random(3);
  std::binomial_distribution<int> losses(400, 0.002);
  int certified = 0;
  for (int repetition = 0; repetition < 200; ++repetition) {
    const Certification result = certify(promise_of(LossKind::kBinary), {{0}}, 400, [&](size_t) {
      return LossSum{400, static_cast<double>(losses(random))};
    });
    certified += result.tested.front().certified ? 1 : 0;
  }
  EXPECT_GT(certified, 180);
}

TEST(CertifySimulation, NeverCertifiesWhatIsBroken) {
  const std::vector<double> risks(20, 0.5);
  for (const LossKind kind : {LossKind::kBinary, LossKind::kBounded}) {
    EXPECT_EQ(frequency_of_broken_promises(promise_of(kind), risks, 2, 200, 5), 0);
  }
}

}  // namespace
}  // namespace lacuna::certify_test
