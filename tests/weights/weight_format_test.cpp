#include "weights/weight_format.h"

#include <gtest/gtest.h>

namespace lacuna::weight_format_test {
namespace {

TEST(WeightFormats, HaveNamesAndSizes) {
  EXPECT_EQ(describe(*weight_format("int4-min")), "int4-min");
  EXPECT_FALSE(weight_format("int5"));
  EXPECT_EQ(describe(Quantization{.bits = 8, .group = 16, .wide_scales = true}),
            "8-bit codes in groups of 16, f32 scales");
  EXPECT_EQ(packed_bytes(*weight_format("bf16"), 4096, 4096), 2 * 4096 * 4096);
  EXPECT_EQ(packed_bytes(*weight_format("int8-group"), 4096, 4096), 4096 * 4096 * 34 / 32);
  EXPECT_EQ(packed_bytes(*weight_format("int8"), 4096, 4096), 4096 * (4096 + 4));
  EXPECT_EQ(packed_bytes(*weight_format("fp8"), 4096, 4096), 4096 * (4096 + 4));
  EXPECT_EQ(packed_bytes(*weight_format("int4-group"), 4096, 4096), 4096 * 4096 * 18 / 32);
  EXPECT_EQ(packed_bytes(*weight_format("int4"), 4096, 4096), 4096 * (4096 * 18 / 32 + 8));
}

TEST(WeightFormats, AreEqualIfTheyStoreWeightsAlike) {
  EXPECT_EQ(WeightFormat(DType::kF32), *weight_format("f32"));
  EXPECT_FALSE(WeightFormat(DType::kF32) == *weight_format("bf16"));
  WeightFormat quantized = *weight_format("int8");
  quantized.dtype = DType::kF32;
  EXPECT_EQ(quantized, *weight_format("int8")) << "the dtype of quantized weights is ignored";
}

}  // namespace
}  // namespace lacuna::weight_format_test
