// Properties that hold on a device and in the simulator; nvcc compiles this file, too.
#include "backend/cuda/runtime.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "backend/cuda/device.h"
#include "bench/gpu/device_vectors.h"

namespace lacuna::cuda::runtime_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

struct AddArguments {
  int32_t* values;
  int32_t summand;
};
LACUNA_KERNEL add_kernel(AddArguments a) {
  a.values[simt::thread_index()] += a.summand;
}

struct Large {
  int32_t words[24 * 1024];
};
struct CopyArguments {
  const int32_t* from;
  int32_t* to;
};
/// Through the last words of 96 KiB of shared memory.
LACUNA_KERNEL copy_through_shared_kernel(CopyArguments a) {
  auto& memory = simt::shared<Large>();
  const uint32_t thread = simt::thread_index();
  memory.words[24 * 1024 - 1 - thread] = a.from[thread];
  simt::sync_threads();
  a.to[thread] = memory.words[24 * 1024 - 1 - thread];
}

TEST(Stream, RunsWhatItWasSentInOrder) {
  Stream stream;
  const DeviceBuffer buffer = upload(stream, std::vector<int32_t>(32, 1));
  launch(stream, add_kernel, {}, {buffer.as<int32_t>(), 5});
  stream.fill(buffer.as<uint8_t>(), 0, 16);
  launch(stream, add_kernel, {}, {buffer.as<int32_t>(), 2});
  const auto got = download<int32_t>(stream, buffer);
  EXPECT_EQ(got[0], 2);
  EXPECT_EQ(got[31], 8);
}

TEST(Stream, HasRunWhatCameBeforeAnEventThatItWaitedFor) {
  Stream stream;
  const DeviceBuffer buffer = upload(stream, std::vector<int32_t>(32, 0));
  const HostBuffer seen(sizeof(int32_t));
  Event start, copied;
  EXPECT_TRUE(start.is_done());
  stream.record(start);
  launch(stream, add_kernel, {}, {buffer.as<int32_t>(), 1});
  stream.copy(seen.as<int32_t>(), buffer.as<int32_t>(), sizeof(int32_t));
  stream.record(copied);
  stream.wait(copied);
  EXPECT_TRUE(start.is_done());
  EXPECT_TRUE(copied.is_done());
  EXPECT_EQ(*seen.as<int32_t>(), 1);
  EXPECT_GE(seconds_between(start, copied), 0);
}

TEST(Stream, GivesMemoryThatIsNoNumberUntilItIsWritten) {
  Stream stream;
  const DeviceBuffer buffer(8);
  EXPECT_NE(download<float>(stream, buffer)[1], download<float>(stream, buffer)[1]);
  stream.fill(buffer.as<uint8_t>(), 0, 8);
  EXPECT_THAT(download<float>(stream, buffer), ElementsAre(0, 0));
}

TEST(Stream, GivesKernelsMoreSharedMemoryThanADeviceDoesUnasked) {
  Stream stream;
  std::vector<int32_t> numbers(256);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int32_t>(i * i);
  const DeviceBuffer from = upload(stream, numbers);
  const DeviceBuffer to(numbers.size() * sizeof(int32_t));
  const simt::LaunchShape shape{.threads = 256, .shared_bytes = sizeof(Large)};
  stream.begin_capture();  // the kernel's first launch is one that is recorded
  launch(stream, copy_through_shared_kernel, shape, {from.as<int32_t>(), to.as<int32_t>()});
  const Graph graph = stream.end_capture();
  stream.launch(graph);
  EXPECT_EQ(download<int32_t>(stream, to), numbers);
}

TEST(Graph, RepeatsWhatWasRecordedWithWhatThePointersShowThen) {
  Stream stream;
  const DeviceBuffer buffer = upload(stream, std::vector<int32_t>(32, 0));
  const HostBuffer staging(32 * sizeof(int32_t));
  std::fill_n(staging.as<int32_t>(), 32, 100);
  stream.begin_capture();
  stream.copy(buffer.as<int32_t>(), staging.as<int32_t>(), 32 * sizeof(int32_t));
  launch(stream, add_kernel, {}, {buffer.as<int32_t>(), 7});
  const Graph graph = stream.end_capture();
  EXPECT_EQ(graph.num_nodes(), 2U);
  EXPECT_THAT(download<int32_t>(stream, buffer), Each(0));
  for (const int32_t start : {100, 200}) {
    std::fill_n(staging.as<int32_t>(), 32, start);
    stream.launch(graph);
    EXPECT_THAT(download<int32_t>(stream, buffer), Each(start + 7));
  }
}

}  // namespace
}  // namespace lacuna::cuda::runtime_test
