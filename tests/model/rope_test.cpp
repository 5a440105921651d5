// Golden values are those of modeling_rope_utils of transformers 5.23.
#include "model/rope.h"

#include <gmock/gmock.h>

#include <cmath>

#include "base/error.h"

namespace lacuna::rope_test {
namespace {

using testing::ElementsAre;
using testing::FloatNear;

auto near(double value) {
  return FloatNear(static_cast<float>(value), static_cast<float>(2e-6 * value));
}

RopeConfig scaled(RopeConfig::Scaling scaling, float factor) {
  RopeConfig rope;
  rope.scaling = scaling;
  rope.factor = factor;
  rope.original_positions = 512;
  return rope;
}

TEST(RopeFrequencies, AreThoseOfThePublishedCode) {
  using Scaling = RopeConfig::Scaling;
  EXPECT_THAT(
      rope_frequencies(scaled(Scaling::kLinear, 4), 16),
      ElementsAre(near(0.25), near(0.079056941), near(0.0250000004), near(0.00790569466), near(0.00249999994),
                  near(0.000790569466), near(0.000250000012), near(7.90569466e-05)));
  EXPECT_THAT(
      rope_frequencies(scaled(Scaling::kLlama3, 8), 16),
      ElementsAre(near(1), near(0.316227764), near(0.100000001), near(0.0184966773), near(0.00124999997),
                  near(0.000395284733), near(0.000125000006), near(3.95284733e-05)));
  RopeConfig yarn = scaled(Scaling::kYarn, 8);
  EXPECT_THAT(
      rope_frequencies(yarn, 16),
      ElementsAre(near(1), near(0.247052938), near(0.0562500022), near(0.01087033), near(0.00124999997),
                  near(0.000395284733), near(0.000125000006), near(3.95284733e-05)));
  yarn.whole_ramp = false;
  yarn.beta_fast = 16;
  yarn.beta_slow = 2;
  EXPECT_THAT(
      rope_frequencies(yarn, 16),
      ElementsAre(near(1), near(0.316227764), near(0.0716084614), near(0.00732499827), near(0.00124999997),
                  near(0.000395284733), near(0.000125000006), near(3.95284733e-05)));
}

TEST(RopeFrequencies, UnderDynamicScalingChangeWithTheContextThatIsAskedFor) {
  RopeConfig rope = scaled(RopeConfig::Scaling::kDynamic, 3);
  EXPECT_EQ(rope_frequencies(rope, 16), rope_frequencies(RopeConfig(), 16));
  scale_rope(rope, 2, 16);  // 8192 positions where 4096 are max_position_embeddings
  EXPECT_THAT(
      rope_frequencies(rope, 16),
      ElementsAre(near(1), near(0.259412825), near(0.0672950074), near(0.017457189), near(0.00452861842),
                  near(0.00117478159), near(0.000304753397), near(7.90569466e-05)));
}

TEST(RopeFrequencies, FallGeometricallyFromOne) {
  RopeConfig rope;
  rope.theta = 10000;
  EXPECT_THAT(rope_frequencies(rope, 8),
              ElementsAre(1.0F, testing::FloatEq(0.1F), testing::FloatEq(0.01F), testing::FloatEq(0.001F)));
  rope.scaling = RopeConfig::Scaling::kLinear;
  rope.factor = 4;
  EXPECT_FLOAT_EQ(rope_frequencies(rope, 8)[1], 0.025F);
}

TEST(RopeFrequencies, OfAStretchedContextSlowTheSlowestPairByTheFactorAndTheFastestNotAtAll) {
  for (const int64_t dims : {int64_t{4}, int64_t{64}, int64_t{128}}) {
    RopeConfig rope;
    rope.theta = 1e6F;
    const auto before = rope_frequencies(rope, dims);
    scale_rope(rope, 4, dims);
    const auto after = rope_frequencies(rope, dims);
    EXPECT_EQ(after.front(), before.front());
    EXPECT_NEAR(after.back() / before.back(), 0.25, 1e-6);
  }
  RopeConfig rope;
  rope.theta = 600000;
  scale_rope(rope, 8, 64);
  EXPECT_NEAR(rope.theta, 600000 * std::pow(8.0, 64.0 / 62), 1);  // by hand
  scale_rope(rope, 1, 64);
  EXPECT_NEAR(rope.theta, 600000 * std::pow(8.0, 64.0 / 62), 1);
  EXPECT_THROW(scale_rope(rope, 2, 2), InputError);
}

TEST(RopeFrequencies, SlowOnlyTheSlowPairsUnderYarn) {
  RopeConfig plain;
  plain.theta = 1e6F;
  RopeConfig yarn = plain;
  yarn.scaling = RopeConfig::Scaling::kYarn;
  yarn.factor = 4;
  yarn.original_positions = 32768;
  const auto before = rope_frequencies(plain, 128);
  const auto after = rope_frequencies(yarn, 128);
  // By hand: 128 ln(32768 / (2 pi r)) / (2 ln 1e6) is 23.59 for r = 32 and 39.65 for r = 1, so the ramp
  // is 23..40.
  for (size_t j = 0; j < after.size(); ++j) {
    const double ramp = j <= 23 ? 0 : j >= 40 ? 1 : (static_cast<double>(j) - 23) / 17;
    EXPECT_NEAR(after[j] / before[j], 1 - ramp * 0.75, 1e-6) << j;
  }
}

}  // namespace
}  // namespace lacuna::rope_test
