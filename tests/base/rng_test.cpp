#include "base/rng.h"

#include <gmock/gmock.h>

#include <cmath>
#include <set>
#include <vector>

namespace lacuna::rng_test {
namespace {

TEST(RngStream, IsAFunctionOfSeedCoordinatesAndIndex) {
  const RngStream stream(7, 3, 5);
  const uint64_t third = stream.bits(3);
  stream.bits(0);
  EXPECT_EQ(stream.bits(3), third) << "drawing other numbers changes nothing";
  EXPECT_EQ(RngStream(7, 3, 5).bits(3), third);
}

// A change of these numbers changes what every seed writes.
TEST(RngStream, KeepsItsNumbersFromReleaseToRelease) {
  static_assert(mix_bits(0) == 0);
  EXPECT_EQ(mix_bits(0x9e3779b97f4a7c15ULL), 0xe220a8397b1dcdafULL);  // SplitMix64's first number from seed 0
  EXPECT_EQ(RngStream(0).bits(0), 0x568a9b0b1a2c05ecULL);
  EXPECT_EQ(RngStream(42, 1, 2, 3).bits(4), 0x610a9c21ff0d3d7dULL);
}

TEST(RngStream, DependsOnSeedCoordinatesTheirOrderAndIndex) {
  std::set<uint64_t> seen;
  int64_t drawn = 0;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    for (int position = 0; position < 8; ++position) {
      for (int step = 0; step < 8; ++step) {
        for (uint64_t index = 0; index < 8; ++index, ++drawn) {
          seen.insert(RngStream(seed, position, step).bits(index));
        }
      }
      for (uint64_t index = 0; index < 8; ++index, ++drawn)
        seen.insert(RngStream(seed, position).bits(index));
    }
  }
  EXPECT_EQ(static_cast<int64_t>(seen.size()), drawn);
}

/// Pearson's chi-squared over equally likely bins, in standard deviations from its mean.
double surprise(const std::vector<int64_t>& counts) {
  double total = 0;
  for (const int64_t count : counts) total += static_cast<double>(count);
  const double expected = total / static_cast<double>(counts.size());
  double chi_squared = 0;
  for (const int64_t count : counts)
    chi_squared += std::pow(static_cast<double>(count) - expected, 2) / expected;
  const auto freedom = static_cast<double>(counts.size() - 1);
  return (chi_squared - freedom) / std::sqrt(2 * freedom);
}

TEST(RngStream, IsUniformAlongIndicesAndAlongCoordinates) {
  constexpr int64_t kDraws = 200'000;
  std::vector<int64_t> by_index(100);
  std::vector<int64_t> by_coordinate(100);
  for (int64_t i = 0; i < kDraws; ++i) {
    const auto index = static_cast<uint64_t>(i);
    ++by_index[static_cast<size_t>(RngStream(1, 2).uniform(index) * 100)];
    ++by_coordinate[static_cast<size_t>(RngStream(1, i).uniform(0) * 100)];
  }
  EXPECT_LT(std::abs(surprise(by_index)), 5);
  EXPECT_LT(std::abs(surprise(by_coordinate)), 5);
}

TEST(RngStream, SamplesNeighboursWithoutCorrelation) {
  constexpr int64_t kDraws = 100'000;
  double along_indices = 0;
  double along_coordinates = 0;
  for (int64_t i = 0; i < kDraws; ++i) {
    const auto index = static_cast<uint64_t>(i);
    along_indices += (RngStream(3).uniform(index) - 0.5) * (RngStream(3).uniform(index + 1) - 0.5);
    along_coordinates += (RngStream(3, i).uniform(0) - 0.5) * (RngStream(3, i + 1).uniform(0) - 0.5);
  }
  // One product has standard deviation 1/12.
  const double deviation = std::sqrt(static_cast<double>(kDraws)) / 12;
  EXPECT_LT(std::abs(along_indices), 5 * deviation);
  EXPECT_LT(std::abs(along_coordinates), 5 * deviation);
}

TEST(RngStream, NeverReachesTheEndsOfTheUnitInterval) {
  const RngStream stream(11);
  double smallest = 1;
  double largest = 0;
  for (uint64_t i = 0; i < 100'000; ++i) {
    const double u = stream.uniform(i);
    ASSERT_GT(u, 0);
    ASSERT_LT(u, 1);
    smallest = std::min(smallest, u);
    largest = std::max(largest, u);
  }
  EXPECT_LT(smallest, 1e-4);
  EXPECT_GT(largest, 1 - 1e-4);
  EXPECT_TRUE(std::isfinite(std::log(-std::log(0x1p-53)))) << "a Gumbel draw from the smallest is finite";
}

TEST(RngStream, SamplesIntegersBelowACount) {
  const RngStream stream(13);
  for (const uint32_t count : {1U, 2U, 7U, 150'000U, 0xffffffffU}) {
    for (uint64_t i = 0; i < 1000; ++i) ASSERT_LT(stream.below(i, count), count);
  }
  std::vector<int64_t> counts(7);
  for (uint64_t i = 0; i < 70'000; ++i) ++counts[stream.below(i, 7)];
  EXPECT_LT(std::abs(surprise(counts)), 5);
}

}  // namespace
}  // namespace lacuna::rng_test
