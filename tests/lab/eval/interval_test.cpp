#include "eval/interval.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace lacuna::interval_test {
namespace {

TEST(WilsonInterval, MatchesPublishedValues) {
  // Newcombe (1998), table I, method 3.
  const Interval many = wilson_interval(81, 263);
  EXPECT_NEAR(many.low, 0.2553, 5e-5);
  EXPECT_NEAR(many.high, 0.3662, 5e-5);
  const Interval few = wilson_interval(15, 148);
  EXPECT_NEAR(few.low, 0.0624, 5e-5);
  EXPECT_NEAR(few.high, 0.1605, 5e-5);
  const Interval one = wilson_interval(1, 29);
  EXPECT_NEAR(one.low, 0.0061, 5e-5);
  EXPECT_NEAR(one.high, 0.1718, 5e-5);
}

TEST(WilsonInterval, StaysWithinZeroAndOne) {
  const Interval none = wilson_interval(0, 20);
  EXPECT_EQ(none.low, 0);
  EXPECT_NEAR(none.high, 0.1611, 5e-5);
  const Interval all = wilson_interval(20, 20);
  EXPECT_EQ(all.high, 1);
  EXPECT_NEAR(all.low, 1 - none.high, 1e-12);
}

TEST(WilsonInterval, KnowsNothingWithoutTrials) {
  EXPECT_EQ(wilson_interval(0, 0), (Interval{0, 1}));
}

TEST(BootstrapInterval, IsAsWideAsTheNormalApproximationOfAMean) {
  // 400 items, a quarter of them 1: the standard error is sqrt(0.25 * 0.75 / 400).
  std::vector<RatioPart> items;
  for (int i = 0; i < 400; ++i) items.push_back({i % 4 == 0 ? 1.0 : 0.0, 1});
  const double half = 1.96 * std::sqrt(0.25 * 0.75 / 400);
  const Interval interval = bootstrap_interval(items, 1);
  EXPECT_NEAR(interval.low, 0.25 - half, 0.01);
  EXPECT_NEAR(interval.high, 0.25 + half, 0.01);
  EXPECT_EQ(bootstrap_interval(items, 1), interval);
  EXPECT_FALSE(bootstrap_interval(items, 2) == interval);
}

TEST(BootstrapInterval, WeighsItemsByTheirDenominators) {
  // All weight is on items with the same ratio.
  const std::vector<RatioPart> items = {{6, 2}, {30, 10}, {0, 0}};
  EXPECT_EQ(bootstrap_interval(items, 0), (Interval{3, 3}));
  EXPECT_EQ(bootstrap_interval({}, 0), (Interval{0, 0}));
  EXPECT_EQ(bootstrap_interval(std::vector<RatioPart>{{1, 0}}, 0), (Interval{0, 0}));
}

}  // namespace
}  // namespace lacuna::interval_test
