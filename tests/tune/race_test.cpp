#include "tune/race.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "simulation.h"

namespace lacuna::race_test {
namespace {

using testing::ElementsAre;
using testing::Not;

/// Settings whose losses and costs are known: each level of a path costs a factor and adds a risk.
struct Family {
  std::vector<std::vector<double>> cost;  ///< [path][level - 1], relative to the baseline
  std::vector<std::vector<double>> risk;  ///< [path][level - 1]
  std::vector<double> difficulties;       ///< [prompts] of all prompts, in (0, 1)

  double risk_of(const Levels& levels) const {
    double sum = 0;
    for (size_t path = 0; path < levels.size(); ++path) {
      if (levels[path] > 0) sum += risk[path][static_cast<size_t>(levels[path]) - 1];
    }
    return std::min(sum, 1.0);
  }

  Measured measure(const Levels& levels, size_t first, size_t count) const {
    double ratio = 1;
    for (size_t path = 0; path < levels.size(); ++path) {
      if (levels[path] > 0) ratio *= cost[path][static_cast<size_t>(levels[path]) - 1];
    }
    Measured measured;
    measured.sum.prompts = static_cast<int64_t>(count);
    for (size_t i = first; i < first + count; ++i) {
      measured.sum.losses += difficulties[i] < risk_of(levels) ? 1 : 0;
    }
    measured.baseline_cost = static_cast<double>(count);
    measured.cost = ratio * static_cast<double>(count);
    return measured;
  }
};

std::vector<double> spread(size_t prompts) {
  std::vector<double> difficulties(prompts);
  for (size_t i = 0; i < prompts; ++i) {
    difficulties[i] = (static_cast<double>((i * 37) % prompts) + 0.5) / static_cast<double>(prompts);
  }
  return difficulties;
}

RaceRules rules_of(const Family& family, int32_t prompts = 64) {
  RaceRules rules;
  for (const auto& path : family.cost) {
    rules.methods.push_back(static_cast<int32_t>(rules.levels.size()));
    rules.levels.push_back(static_cast<int32_t>(path.size()));
  }
  rules.prompts = prompts;
  return rules;
}

RaceResult run(
    const Family& family, const RaceRules& rules,
    const std::function<bool(const Levels&)>& is_valid = [](const Levels&) { return true; }) {
  return race(rules, is_valid, [&](const Levels& levels, int32_t prompts) {
    return family.measure(levels, 0, static_cast<size_t>(prompts));
  });
}

TEST(Race, WalksToTheCheapestCombinationThatIsNotRefuted) {
  const Family family{{{0.8, 0.5, 0.3}, {0.7, 0.6}}, {{0, 0, 0.6}, {0, 0}}, spread(64)};
  const RaceResult result = run(family, rules_of(family));
  ASSERT_EQ(result.chains.size(), 1U);
  EXPECT_THAT(result.chains.front(), ElementsAre(Levels{1, 0}, Levels{2, 0}, Levels{2, 1}, Levels{2, 2}));
}

TEST(Race, ChainsAreMonotone) {
  const Family family{{{0.9, 0.8, 0.5, 0.3}, {0.7, 0.6, 0.4}, {0.9}, {0.95, 0.9}},
                      {{0, 0, 0, 0}, {0, 0, 0}, {0}, {0, 0}},
                      spread(64)};
  for (const std::vector<Levels>& chain : run(family, rules_of(family)).chains) {
    for (size_t i = 1; i < chain.size(); ++i) {
      EXPECT_NE(chain[i], chain[i - 1]);
      for (size_t path = 0; path < 4; ++path) EXPECT_GE(chain[i][path], chain[i - 1][path]);
    }
  }
}

TEST(Race, ALevelThatLosesTooMuchIsNeverTested) {
  const Family family{{{0.5, 0.1}}, {{0, 1}}, spread(64)};
  for (const std::vector<Levels>& chain : run(family, rules_of(family)).chains) {
    EXPECT_THAT(chain, Not(testing::Contains(Levels{2})));
  }
}

TEST(Race, ALevelThatSavesNoWorkIsNeverTested) {
  const Family family{{{1.0, 1.2}, {0.5}}, {{0, 0}, {0}}, spread(64)};
  const RaceResult result = run(family, rules_of(family));
  ASSERT_EQ(result.chains.size(), 1U);
  EXPECT_THAT(result.chains.front(), ElementsAre(Levels{0, 1}));
}

TEST(Race, WithoutASafeMethodThereIsNothingToCertify) {
  const Family family{{{0.5, 0.3}, {0.4}}, {{0.9, 1}, {1}}, spread(64)};
  EXPECT_TRUE(run(family, rules_of(family)).chains.empty());
}

TEST(Race, MethodsThatExcludeEachOtherGetChainsOfTheirOwn) {
  const Family family{{{0.5}, {0.6}}, {{0}, {0}}, spread(64)};
  const RaceResult result =
      run(family, rules_of(family), [](const Levels& levels) { return levels[0] == 0 || levels[1] == 0; });
  ASSERT_EQ(result.chains.size(), 2U);
  EXPECT_THAT(result.chains[0], ElementsAre(Levels{1, 0}));
  EXPECT_THAT(result.chains[1], ElementsAre(Levels{0, 1}));
}

TEST(Race, RoundsHalveThePathsOfAMethod) {
  Family family{{}, {}, spread(64)};
  for (int path = 0; path < 16; ++path) {
    family.cost.push_back({0.5 + 0.02 * path});
    family.risk.push_back({0});
  }
  RaceRules rules = rules_of(family);
  rules.methods.assign(16, 0);
  std::vector<int32_t> most(16, 0);  // prompts on which each path was measured alone
  race(
      rules, [](const Levels& levels) { return std::accumulate(levels.begin(), levels.end(), 0) == 1; },
      [&](const Levels& levels, int32_t prompts) {
        const auto path = static_cast<size_t>(std::find(levels.begin(), levels.end(), 1) - levels.begin());
        most[path] = std::max(most[path], prompts);
        return family.measure(levels, 0, static_cast<size_t>(prompts));
      });
  EXPECT_EQ(std::count(most.begin(), most.end(), 64), 2);
  EXPECT_EQ(std::count(most.begin(), most.end(), 8), 8);
}

TEST(Race, WhenTheBudgetIsSpentWhatIsKnownDecides) {
  const Family family{{{0.8, 0.5}, {0.7}}, {{0, 0}, {0}}, spread(64)};
  int calls = 0;
  const RaceResult result = race(
      rules_of(family), [](const Levels&) { return true; },
      [&](const Levels& levels, int32_t prompts) {
        ++calls;
        return family.measure(levels, 0, static_cast<size_t>(prompts));
      },
      [&] { return calls < 1; });
  EXPECT_EQ(calls, 1);
  ASSERT_EQ(result.chains.size(), 1U);
  EXPECT_EQ(result.chains.front().back(), (Levels{2, 0}));
}

// The whole procedure on families with known risks: the race sees some prompts, certification the others.

void expect_kept_promises(const std::vector<int>& numbers_of_prompts,
                          const std::vector<SimulatedPaths>& families, int repetitions) {
  for (const NamedLossShape& loss : kLossShapes) {
    for (const int prompts : numbers_of_prompts) {
      const Promise promise{kind_of(loss.shape), prompts == 50 ? 0.1 : 0.05, 0.9};
      for (SimulatedPaths family : families) {
        family.risk = promise.risk;
        EXPECT_LE(simulate_tuning(loss.shape, promise, family, prompts, repetitions, 5).broken,
                  allowed_frequency(promise.confidence, repetitions))
            << loss.name << ": " << prompts << " prompts, " << family.paths << " paths";
      }
    }
  }
}

TEST(RaceSimulation, ThePromiseHoldsForWhatTheRaceChose) {
  expect_kept_promises({50, 200}, {{1, 1}, {4, 5}}, 400);
}

TEST(RaceSimulationSlow, ThePromiseHoldsForWhatTheRaceChose) {
  expect_kept_promises({50, 200, 1000}, {{1, 1}, {4, 5}, {50, 10}}, 2000);
}

TEST(RaceSimulation, IsNoEmptyPromise) {
  const Promise promise{LossKind::kBinary, 0.05, 0.9};
  EXPECT_GT(simulate_tuning(LossShape::kAnswer, promise, {4, 5, 0.05}, 1000, 400, 5).certified, 0.5);
}

}  // namespace
}  // namespace lacuna::race_test
