#include "train/prompt_noise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace lacuna::train::prompt_noise_test {
namespace {

constexpr std::string_view kText = "Mia has 12 shells. She finds twenty-one more, and gives 5 to Sam.";

std::string noisy(double share, uint64_t seed) {
  Draws draws(RngStream(seed, 0));
  return with_noise(kText, share, draws);
}

TEST(PromptNoise, LeavesATextAloneWithoutAShare) {
  EXPECT_EQ(noisy(0, 1), kText);
}

TEST(PromptNoise, KeepsNumbersAndWhatComparesThem) {
  for (uint64_t seed = 1; seed < 50; ++seed) {
    const std::string text = noisy(1, seed);
    for (const char* kept : {"12", "twenty-one", "more,", "5"}) EXPECT_NE(text.find(kept), std::string::npos);
    EXPECT_EQ(std::count(text.begin(), text.end(), '.'), 2) << text;
  }
}

TEST(PromptNoise, ChangesAboutItsShareOfTheOtherWords) {
  int changed = 0;
  for (uint64_t seed = 1; seed <= 500; ++seed) changed += noisy(0.1, seed) != kText ? 1 : 0;
  EXPECT_NEAR(changed, 500 * (1 - 0.387), 45);  // nine words may change; four standard deviations
}

}  // namespace
}  // namespace lacuna::train::prompt_noise_test
