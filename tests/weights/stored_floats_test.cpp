#include "weights/stored_floats.h"

#include <gmock/gmock.h>

#include <cmath>

#include "base/error.h"
#include "safetensors_bytes.h"
#include "temporary_folder.h"
#include "weights/checkpoint.h"

namespace lacuna::stored_floats_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(FloatType, HasTheValuesOfItsDefinition) {
  const auto& e4m3 = values_of(FloatType::kE4M3);
  EXPECT_EQ(e4m3[0x7e], 448);
  EXPECT_EQ(e4m3[0x01], 0x1p-9F);
  EXPECT_EQ(e4m3[0xb8], -1);
  EXPECT_TRUE(std::isnan(e4m3[0xff]));
  const auto& e5m2 = values_of(FloatType::kE5M2);
  EXPECT_EQ(e5m2[0x3c], 1);
  EXPECT_EQ(e5m2[0x7b], 57344);
  EXPECT_EQ(e5m2[0x81], -0x1p-16F);
  EXPECT_TRUE(std::isinf(e5m2[0x7c]));
  const auto& e8m0 = values_of(FloatType::kE8M0);
  EXPECT_EQ(e8m0[127], 1);
  EXPECT_EQ(e8m0[0], 0x1p-127F);
  EXPECT_TRUE(std::isnan(e8m0[255]));
}

TEST(StoredFloats, ReadsEveryType) {
  const TemporaryFolder folder;
  const std::string header = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                             R"("b":{"dtype":"F16","shape":[1],"data_offsets":[4,6]},)"
                             R"("c":{"dtype":"BF16","shape":[1,1],"data_offsets":[6,8]},)"
                             R"("d":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[8,10]},)"
                             R"("e":{"dtype":"I8","shape":[1],"data_offsets":[10,11]}})";
  const std::string data("\0\0\x20\x40\0\x41\x20\x40\x38\xc0\x01", 11);
  folder.write("model.safetensors", safetensors_bytes(header, data));
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  EXPECT_EQ(StoredFloats(checkpoint, "a")[0], 2.5F);
  EXPECT_EQ(StoredFloats(checkpoint, "b")[0], 2.5F);
  EXPECT_EQ(StoredFloats(checkpoint, "c")[0], 2.5F);
  EXPECT_EQ(StoredFloats(checkpoint, "d")[0], 1);
  EXPECT_EQ(StoredFloats(checkpoint, "d")[1], -2);
  EXPECT_FALSE(StoredFloats(checkpoint, "a").is_short());
  EXPECT_TRUE(StoredFloats(checkpoint, "c").is_short());
  EXPECT_THAT([&] { StoredFloats(checkpoint, "e"); }, ThrowsMessage<InputError>(HasSubstr("has type I8")));
  EXPECT_THAT(
      [&] {
        StoredFloats(checkpoint, "d").expect_shape({{1, 2}, {2, 1}});
      },
      ThrowsMessage<InputError>(HasSubstr("has shape [2]; expected [1, 2] or [2, 1]")));
}

}  // namespace
}  // namespace lacuna::stored_floats_test
