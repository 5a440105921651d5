// Guarantees of the simulator only: work runs when somebody waits for it, and not before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "backend/cuda/runtime.h"
#include "bench/gpu/device_vectors.h"

namespace lacuna::cuda::runtime_simulated_test {
namespace {

using ::testing::ElementsAre;

struct AddArguments {
  int32_t* values;
  int32_t summand;
};
LACUNA_KERNEL add_kernel(AddArguments a) {
  a.values[simt::thread_index()] += a.summand;
}
LACUNA_KERNEL stuck_kernel(AddArguments) {
  if (simt::thread_index() == 3) simt::sync_threads();
}

TEST(SimulatedStream, DoesNothingBeforeSomebodyWaits) {
  Stream stream;
  const DeviceBuffer buffer = upload(stream, std::vector<int32_t>(32, 1));
  launch(stream, add_kernel, {}, {buffer.as<int32_t>(), 5});
  EXPECT_EQ(stream.num_waiting(), 1U);
  EXPECT_EQ(buffer.as<int32_t>()[0], 1);
  stream.wait();
  EXPECT_EQ(buffer.as<int32_t>()[31], 6);
}

TEST(SimulatedStream, WaitsForAnEventAndNoFurther) {
  Stream stream;
  const DeviceBuffer buffer = upload(stream, std::vector<int32_t>(32, 0));
  Event first, second;
  launch(stream, add_kernel, {}, {buffer.as<int32_t>(), 1});
  stream.record(first);
  launch(stream, add_kernel, {}, {buffer.as<int32_t>(), 10});
  stream.record(second);
  EXPECT_FALSE(first.is_done());
  stream.wait(first);
  EXPECT_TRUE(first.is_done());
  EXPECT_FALSE(second.is_done());
  EXPECT_EQ(buffer.as<int32_t>()[0], 1);
  stream.wait(second);
  EXPECT_EQ(buffer.as<int32_t>()[0], 11);
}

TEST(SimulatedStream, CatchesABufferThatIsWrittenAgainBeforeItsCopyRan) {
  Stream stream;
  const DeviceBuffer first(4 * sizeof(int32_t));
  const DeviceBuffer second(4 * sizeof(int32_t));
  std::vector<int32_t> staging = {1, 2, 3, 4};
  stream.copy(first.as<int32_t>(), staging.data(), 16);
  staging = {5, 6, 7, 8};  // too early
  stream.copy(second.as<int32_t>(), staging.data(), 16);
  EXPECT_THAT(download<int32_t>(stream, first), ElementsAre(5, 6, 7, 8));
}

TEST(SimulatedStream, DropsItsWorkAfterAFault) {
  Stream stream;
  const DeviceBuffer buffer = upload(stream, std::vector<int32_t>(32, 0));
  launch(stream, stuck_kernel, {}, {buffer.as<int32_t>(), 0});
  launch(stream, add_kernel, {}, {buffer.as<int32_t>(), 1});
  EXPECT_THROW(stream.wait(), simt::Fault);
  stream.wait();
  EXPECT_EQ(buffer.as<int32_t>()[0], 0);
}

}  // namespace
}  // namespace lacuna::cuda::runtime_simulated_test
