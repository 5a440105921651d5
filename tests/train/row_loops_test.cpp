#include "train/row_loops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace lacuna::train {
namespace {

TEST(RowLoops, RoundToTheNearestBf16TiesToEven) {
  // 1 has 7 bits behind the point in bf16: steps of 1 / 128.
  const std::vector<float> in = {1, 1 + 1.F / 256, 1 + 3.F / 256, 1 + 1.F / 255, -1 - 1.F / 256,
                                 0, -0.F,          3e38F};
  const std::vector<float> wanted = {1, 1, 1 + 2.F / 128, 1 + 1.F / 128, -1, 0, -0.F, 3.0040553e38F};
  std::vector<uint16_t> bits(in.size());
  std::vector<float> got(in.size());
  narrow(in.data(), static_cast<int64_t>(in.size()), bits.data());
  widen(bits.data(), static_cast<int64_t>(bits.size()), got.data());
  for (size_t i = 0; i < in.size(); ++i) {
    EXPECT_FLOAT_EQ(got[i], wanted[i]) << in[i];
    EXPECT_EQ(std::signbit(got[i]), std::signbit(wanted[i])) << in[i];
  }
}

}  // namespace
}  // namespace lacuna::train
