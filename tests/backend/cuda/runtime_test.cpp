#include "backend/cuda/runtime.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "device_vectors.h"

namespace lacuna::cuda::runtime_test {
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

TEST(Stream, DoesNothingBeforeSomebodyWaits) {
  Stream stream;
  const DeviceBuffer buffer = upload(stream, std::vector<int32_t>(32, 1));
  launch(stream, add_kernel, {}, {buffer.as<int32_t>(), 5});
  EXPECT_EQ(stream.num_waiting(), 1U);
  EXPECT_EQ(buffer.as<int32_t>()[0], 1);
  stream.wait();
  EXPECT_EQ(buffer.as<int32_t>()[31], 6);
}

TEST(Stream, WaitsForAnEventAndNoFurther) {
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

TEST(Stream, CatchesABufferThatIsWrittenAgainBeforeItsCopyRan) {
  Stream stream;
  const DeviceBuffer first(4 * sizeof(int32_t));
  const DeviceBuffer second(4 * sizeof(int32_t));
  std::vector<int32_t> staging = {1, 2, 3, 4};
  stream.copy(first.as<int32_t>(), staging.data(), 16);
  staging = {5, 6, 7, 8};  // too early
  stream.copy(second.as<int32_t>(), staging.data(), 16);
  EXPECT_THAT(download<int32_t>(stream, first), ElementsAre(5, 6, 7, 8));
}

TEST(Stream, GivesMemoryThatIsNoNumberUntilItIsWritten) {
  Stream stream;
  const DeviceBuffer buffer(8);
  EXPECT_NE(download<float>(stream, buffer)[1], download<float>(stream, buffer)[1]);
  stream.fill(buffer.as<uint8_t>(), 0, 8);
  EXPECT_THAT(download<float>(stream, buffer), ElementsAre(0, 0));
}

TEST(Stream, DropsItsWorkAfterAFault) {
  Stream stream;
  const DeviceBuffer buffer = upload(stream, std::vector<int32_t>(32, 0));
  launch(stream, stuck_kernel, {}, {buffer.as<int32_t>(), 0});
  launch(stream, add_kernel, {}, {buffer.as<int32_t>(), 1});
  EXPECT_THROW(stream.wait(), simt::Fault);
  stream.wait();
  EXPECT_EQ(buffer.as<int32_t>()[0], 0);
}

TEST(Graph, RepeatsWhatWasRecordedWithWhatThePointersShowThen) {
  Stream stream;
  const DeviceBuffer buffer = upload(stream, std::vector<int32_t>(32, 0));
  std::vector<int32_t> staging(32, 100);
  stream.begin_capture();
  stream.copy(buffer.as<int32_t>(), staging.data(), 32 * sizeof(int32_t));
  launch(stream, add_kernel, {}, {buffer.as<int32_t>(), 7});
  const Graph graph = stream.end_capture();
  stream.wait();
  EXPECT_EQ(graph.num_nodes(), 2U);
  EXPECT_EQ(buffer.as<int32_t>()[0], 0);
  for (const int32_t start : {100, 200}) {
    staging.assign(32, start);
    stream.launch(graph);
    stream.wait();
    EXPECT_EQ(buffer.as<int32_t>()[9], start + 7);
  }
}

}  // namespace
}  // namespace lacuna::cuda::runtime_test
