// Hybrid noise of GIDD; uniform noise and masks alone are in objective_test.cpp.
#include <gtest/gtest.h>

#include <cmath>

#include "train/objective.h"

namespace lacuna::train::noise_examples_test {
namespace {

constexpr int64_t kMask = 9;

TEST(UniformShare, IsPureAtTheEndsAndTheSigmoidBetween) {
  EXPECT_EQ(uniform_share(-9, kPureNoise), 1);
  EXPECT_EQ(uniform_share(9, -kPureNoise), 0);
  EXPECT_NEAR(uniform_share(1, -2), 1 / (1 + std::exp(1)), 1e-12);
}

TEST(NoiseWeight, OfPureNoiseIsThatOfEachKind) {
  for (const double level : {-3.0, 0.0, 4.0}) {
    EXPECT_EQ(noise_weight(/*is_kept=*/false, /*is_mask=*/true, level, 0, 8), 1);
    EXPECT_EQ(noise_weight(false, false, level, 1, 8), 1);
    EXPECT_NEAR(noise_weight(true, false, level, 1, 8), 1 / (1 + 8 * std::exp(level)), 1e-12);
    EXPECT_EQ(noise_weight(true, false, level, 0, 8), 0);
  }
}

TEST(InterpolationExamples, OfHybridNoiseHideAndReplaceAsOftenAsTheShiftSays) {
  Batch batch{torch::arange(10 * 41).remainder(9).view({10, 41}), torch::ones({10, 41}, torch::kBool)};
  batch.response.slice(1, 0, 1).fill_(false);
  double masks = 0, expected_masks = 0, kept = 0, expected_kept = 0;
  for (uint64_t step = 0; step < 200; ++step) {
    const Examples examples = interpolation_examples(
        traits_of(Family::kGidd), batch,
        {.mask_id = kMask, .slot_sizes = {}, .canvas = 32, .vocabulary = 10, .uniform_shift = -1.0}, step);
    const torch::Tensor seen = examples.inputs.flatten().index_select(0, examples.rows);
    const torch::Tensor alpha = examples.log_snr.to(torch::kFloat64).sigmoid();
    const torch::Tensor share = examples.uniform_shares.to(torch::kFloat64);
    EXPECT_TRUE(share.allclose((examples.log_snr - 1).to(torch::kFloat64).sigmoid(), 1e-5, 1e-6));
    masks += seen.eq(kMask).sum().item<double>();
    expected_masks += ((1 - alpha) * (1 - share)).sum().item<double>();
    kept += seen.eq(examples.targets).sum().item<double>();
    expected_kept += (alpha + (1 - alpha) * share / 9).sum().item<double>();
  }
  // Some 56,000 coins: deviations are below 120.
  EXPECT_GT(expected_masks, 10000);
  EXPECT_NEAR(masks, expected_masks, 600);
  EXPECT_NEAR(kept, expected_kept, 600);
}

}  // namespace
}  // namespace lacuna::train::noise_examples_test
