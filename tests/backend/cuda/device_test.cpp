#include "backend/cuda/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "backend/cuda/runtime.h"

namespace lacuna::cuda::device_test {
namespace {

using ::testing::HasSubstr;

TEST(Device, IsListedWithWhatIsKnownBeforeItIsUsed) {
  const DeviceList list = list_devices();
  ASSERT_FALSE(list.devices.empty()) << list.why_none;
  EXPECT_EQ(list.why_none, "");
  EXPECT_EQ(num_devices(), static_cast<int>(list.devices.size()));
  const DeviceInfo& first = list.devices.front();
  EXPECT_THAT(device_name(0), HasSubstr(first.name));
  EXPECT_GE(first.major, 8);  // what kernels are written for
  EXPECT_GT(first.total, 0);
}

TEST(Device, HasVersionsThatAreWrittenAsNvidiaDoes) {
  EXPECT_EQ(version_text(13000), "13.0");
  EXPECT_EQ(version_text(12080), "12.8");
}

TEST(Device, SaysHowMuchOfItsMemoryIsFree) {
  use_device(0);
  const DeviceMemory memory = device_memory();
  EXPECT_GT(memory.free, 0);
  EXPECT_LE(memory.free, memory.total);
  EXPECT_GE(most_shared_bytes(), int64_t{48} << 10);
}

TEST(Device, CopiesFromAndToPinnedMemory) {
  use_device(0);
  Stream stream;
  const HostBuffer there(1000);
  const HostBuffer back(1000);
  const DeviceBuffer buffer(1000);
  for (size_t i = 0; i < 1000; ++i) there.as<uint8_t>()[i] = static_cast<uint8_t>(7 * i);
  stream.copy(buffer.as<uint8_t>(), there.as<uint8_t>(), 1000);
  stream.copy(back.as<uint8_t>(), buffer.as<uint8_t>(), 1000);
  stream.wait();
  EXPECT_EQ(std::memcmp(there.as<uint8_t>(), back.as<uint8_t>(), 1000), 0);
}

}  // namespace
}  // namespace lacuna::cuda::device_test
