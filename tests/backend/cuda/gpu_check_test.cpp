// The checks that `make gpu-check` runs on a device, with small sizes.
#include "bench/gpu/gpu_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "bench/gpu/hopper_sum.h"

namespace lacuna::cuda::gpu_check_test {
namespace {

using Line = CheckReport::Line;

struct Collected {
  std::vector<Line> lines;
  CheckReport report{{{"device", "a device"}}, [this](const Line& line) { lines.push_back(line); }};

  std::map<std::string, int> counts() const {
    std::map<std::string, int> counts;
    for (const Line& line : lines) ++counts[line.at("what")];
    return counts;
  }
};

TEST(GpuCheck, FindsThatNoRowsBitsDependOnItsCompany) {
  Collected collected;
  Stream stream;
  check_invariance(stream, tiny_sizes(), 5, collected.report);
  ASSERT_EQ(collected.counts()["invariance"], 46);
  for (const Line& line : collected.lines) {
    EXPECT_EQ(line.at("different"), 0) << line;
    EXPECT_GT(line.at("rows"), 0) << line;
  }
  EXPECT_EQ(collected.report.num_failures, 0);
}

TEST(GpuCheck, MeasuresEveryKernelAsAShareOfTheCopy) {
  Collected collected;
  Stream stream;
  CheckSizes sizes = tiny_sizes();
  sizes.weights.resize(3);  // one of each use
  sizes.square = 64;
  measure_peaks(stream, sizes, collected.report);
  EXPECT_GT(collected.report.copy_bytes_per_second, 0);
  measure_products(stream, sizes, collected.report);
  measure_attention(stream, sizes, collected.report);
  measure_statistics(stream, sizes, collected.report);
  std::map<std::string, int> counts = collected.counts();
  EXPECT_EQ(counts["product"], 3 * 4 * 2);
  EXPECT_EQ(counts["attention"], 1);
  EXPECT_EQ(counts["statistics"], 5);
  for (const Line& line : collected.lines) {
    EXPECT_EQ(line.at("device"), "a device");
    if (line.contains("us")) {
      EXPECT_GT(line.at("us"), 0) << line;
      EXPECT_GT(line.at("share_of_copy"), 0) << line;
    }
  }
}

TEST(GpuCheck, ComparesEveryElementOfItsSumsWithThePublishedRule) {
  Collected collected;
  Stream stream;
  check_sums(stream, tiny_sizes(), 5, collected.report);
  EXPECT_EQ(collected.lines.at(0).at("elements"), 2 * 16 * 8);
}

constexpr uint16_t kOne = 0x3f80;

TEST(HopperSum, CutsWhatLies25BitsBelowTheLargestExponent) {
  std::vector<uint16_t> a(16, 0), b(16, kOne);
  EXPECT_EQ(hopper_sum(1, a.data(), b.data()), 1);
  std::fill(a.begin(), a.end(), static_cast<uint16_t>((127 - 26) << 7));  // 2^-26
  EXPECT_EQ(hopper_sum(1, a.data(), b.data()), 1);
  EXPECT_EQ(hopper_sum(0, a.data(), b.data()), 0x1p-22F);
  std::fill(a.begin(), a.end(),
            static_cast<uint16_t>((127 - 25) << 7));  // 2^-25: kept, and 16 of them reach f32
  EXPECT_EQ(hopper_sum(1, a.data(), b.data()), 1 + 0x1p-21F);
}

TEST(HopperSum, CutsItsResultTowardsZero) {
  std::vector<uint16_t> a(16, 0), b(16, 0);
  a[0] = static_cast<uint16_t>((127 - 24) << 7);  // 2^-24: half a unit of f32 at 1, three of them 1.5
  b[0] = static_cast<uint16_t>(0x4040);           // 3
  EXPECT_EQ(hopper_sum(1, a.data(), b.data()), 1 + 0x1p-23F);
  a[0] |= 0x8000;
  EXPECT_EQ(hopper_sum(-1, a.data(), b.data()), -1 - 0x1p-23F);
}

TEST(HopperSum, AlignsToExponentsOfFactorsAndNotOfProducts) {
  std::vector<uint16_t> a(16, 0), b(16, 0);
  a[0] = b[0] = 0x3fc0;  // 1.5: the product 2.25 counts as of exponent 0, so 2^-25 is kept
  a[1] = static_cast<uint16_t>((127 - 25) << 7);
  b[1] = kOne;
  a[2] = a[0];
  b[2] = static_cast<uint16_t>(0xbfc0);  // -1.5
  EXPECT_EQ(hopper_sum(0, a.data(), b.data()), 0x1p-25F);
}

}  // namespace
}  // namespace lacuna::cuda::gpu_check_test
