#include "tune/certify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "simulation.h"

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

// Simulations; tests/tune/tune_simulation.cpp runs more of them and prints a table.

void expect_kept_promises(const std::vector<int>& numbers_of_prompts,
                          const std::vector<size_t>& numbers_of_settings, int repetitions) {
  for (const NamedLossShape& loss : kLossShapes) {
    for (const int prompts : numbers_of_prompts) {
      const Promise promise = promise_of(kind_of(loss.shape), prompts == 50 ? 0.1 : 0.05);
      for (const size_t settings : numbers_of_settings) {
        for (const size_t chains : {size_t{1}, std::min<size_t>(settings, 4)}) {
          uint32_t seed = 7;
          for (const std::vector<double>& risks : risk_curves(promise.risk, settings)) {
            EXPECT_LE(simulate_certification(loss.shape, promise, risks, chains, prompts, repetitions, ++seed)
                          .broken,
                      allowed_frequency(promise.confidence, repetitions))
                << loss.name << ": " << prompts << " prompts, " << settings << " settings in " << chains
                << " chains";
          }
        }
      }
    }
  }
}

TEST(CertifySimulation, BreaksThePromiseAtMostAsOftenAsTheConfidenceAllows) {
  expect_kept_promises({50, 200}, {1, 20}, 400);
}

TEST(CertifySimulationSlow, BreaksThePromiseAtMostAsOftenAsTheConfidenceAllows) {
  expect_kept_promises({50, 200, 1000}, {1, 20, 500}, 2000);
}

TEST(CertifySimulation, WouldNoticeChainsThatDoNotShareTheLevel) {
  // The check itself is able to fail: at a level that is four times too large the promise breaks too often.
  const std::vector<double> risks(4, 0.0501);
  const Promise promise = promise_of(LossKind::kBinary, 0.05, 0.6);
  EXPECT_GT(simulate_certification(LossShape::kAnswer, promise, risks, 1, 200, 2000, 7).broken,
            allowed_frequency(0.9, 2000));
}

TEST(CertifySimulation, CertifiesWhatIsSafe) {
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
  const std::vector<double> risks(20, 0.33);
  for (const NamedLossShape& loss : kLossShapes) {
    EXPECT_EQ(
        simulate_certification(loss.shape, promise_of(kind_of(loss.shape)), risks, 2, 200, 2000, 5).certified,
        0);
  }
}

TEST(LossShapes, HaveTheRiskAsTheirMean) {
  constexpr size_t kPrompts = 100'000;
  std::vector<double> difficulties;
  for (size_t i = 0; i < kPrompts; ++i) difficulties.push_back((static_cast<double>(i) + 0.5) / kPrompts);
  for (const NamedLossShape& loss : kLossShapes) {
    for (const double risk : {0.02, 0.1, 0.3}) {
      EXPECT_NEAR(losses_at(loss.shape, difficulties, risk, 0, kPrompts).mean(), risk, 1e-4) << loss.name;
    }
  }
}

}  // namespace
}  // namespace lacuna::certify_test
