#include "base/dtype.h"

#include <gmock/gmock.h>

#include <cmath>

namespace lacuna::dtype_test {
namespace {

float from_bits(uint32_t bits) {
  return std::bit_cast<float>(bits);
}

TEST(Bf16, HoldsItsOwnValuesExactly) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const float value = from_bits(bits << 16);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(bf16(value)))) << bits;
    } else {
      ASSERT_EQ(bf16(value).bits, bits);
    }
  }
}

TEST(Bf16, RoundsToTheNearestAndTiesToEven) {
  // Between every pair of neighbours, the sign aside: the lower half of the word decides.
  for (uint32_t upper = 0; upper < 0x7f80; ++upper) {
    for (const uint32_t lower : {0x0001U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      const bool up = lower > 0x8000U || (lower == 0x8000U && upper % 2 == 1);
      for (const uint32_t sign : {0U, 0x8000U}) {
        ASSERT_EQ(bf16(from_bits((sign + upper) << 16 | lower)).bits, sign + upper + (up ? 1 : 0));
      }
    }
  }
}

TEST(Bf16, KeepsEveryNanAndEveryInfinity) {
  for (const uint32_t bits : {0x7f800001U, 0x7fc00000U, 0x7fffffffU, 0xff800001U, 0xffffffffU}) {
    EXPECT_TRUE(std::isnan(static_cast<float>(bf16(from_bits(bits))))) << std::hex << bits;
  }
  EXPECT_EQ(static_cast<float>(bf16(INFINITY)), INFINITY);
  EXPECT_EQ(static_cast<float>(bf16(-INFINITY)), -INFINITY);
}

TEST(F16, ConvertsEveryValueToF32Exactly) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const int exponent = static_cast<int>(bits >> 10 & 0x1f);
    const int fraction = static_cast<int>(bits & 0x3ff);
    double expected = exponent == 0   ? std::ldexp(fraction, -24)
                      : exponent < 31 ? std::ldexp(1024 + fraction, exponent - 25)
                      : fraction == 0 ? INFINITY
                                      : NAN;
    if ((bits & 0x8000) != 0) expected = -expected;
    f16 half;
    half.bits = static_cast<uint16_t>(bits);
    const auto widened = static_cast<float>(half);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(widened)) << bits;
    } else {
      ASSERT_EQ(widened, expected) << bits;
      ASSERT_EQ(std::signbit(widened), std::signbit(expected)) << bits;
    }
  }
}

TEST(DType, HasASizeAndAName) {
  EXPECT_EQ(size_of(DType::kF32), 4U);
  EXPECT_EQ(size_of(DType::kF16), 2U);
  EXPECT_EQ(size_of(DType::kBF16), 2U);
  EXPECT_EQ(name_of(DType::kF32), "f32");
  EXPECT_EQ(name_of(DType::kF16), "f16");
  EXPECT_EQ(name_of(DType::kBF16), "bf16");
}

}  // namespace
}  // namespace lacuna::dtype_test
