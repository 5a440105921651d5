#include "eval/interval.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace lacuna::interval_test
