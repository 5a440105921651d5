// The backend where only the simulator can show it: its memory is small, and its work can be made to fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <stdexcept>
#include <thread>

#include "backend/cuda/cuda_model.h"
#include "backend/cuda/device_model.h"
#include "backend/cuda/kernels/attention.h"
#include "backend/cuda/kv_pool.h"
#include "backend/cuda/simt/scheduler.h"
#include "base/error.h"
#include "cuda_models.h"

namespace lacuna::cuda::cuda_model_simulated_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(SimulatedCudaModel, RefusesWeightsThatTheDeviceHasNoRoomFor) {
  ModelConfig large = supported_configs().front();
  large.vocab_size = 4 << 20;
  EXPECT_THAT([&] { cuda_model(large); }, ThrowsMessage<InputError>(HasSubstr("and simulator has")));
}

/// Blocks of compute capability 8.6, 8.9 and 12.0 have less shared memory.
constexpr int64_t kConsumerSharedBytes = int64_t{99} << 10;

TEST(SimulatedCudaModel, GivesTheBitsOfHopperInTheSharedMemoryOfConsumerDevices) {
  const ModelConfig config = config_of("sdar");
  for (const WeightFormats& formats : {WeightFormats(DType::kBF16), bf16_with_layers("int8"),
                                       bf16_with_layers("int8-group"), bf16_with_layers("int4-min")}) {
    for (const int32_t tokens : {100, 150}) {  // for the kernels of up to 128 rows and of more
      const StepPlan plan = canvas_plan(random_tokens(2, tokens, config.vocab_size), own_rows_of(config));
      const auto logits = [&] {
        Passes passes(cuda_model(config, formats));
        passes.add_sequence();
        return passes.logits(plan);
      };
      const std::vector<float> expected = logits();
      simt::simulator_options().max_shared_bytes = kConsumerSharedBytes;
      EXPECT_EQ(logits(), expected) << tokens << " tokens";
      simt::simulator_options() = {};
    }
  }
  for (const CellFormat format : {CellFormat::kBf16, CellFormat::kInt8})
    EXPECT_LE(attend_shared_bytes(128, format), kConsumerSharedBytes);
}

TEST(SimulatedCudaModel, ComputesNothingMoreOnceTheDeviceHasFailed) {
  const ModelConfig config = supported_configs().front();
  const auto device = open_cuda_device(0);
  const auto model = load_on_cuda(device, one_thread(), {}, config, DType::kBF16, kWeightSeed, {}, {1 << 20});
  const auto pool = model->make_pool(KvPool::kNoLimit);
  const auto sequence = pool->make_sequence({256});
  const std::vector<KvSequence*> sequences = {sequence.get()};
  const StepPlan plan = canvas_plan(random_tokens(2, 37, config.vocab_size), own_rows_of(config));
  model->submit(plan, sequences)->wait();
  device->stream()->stream.enqueue([] { throw std::runtime_error("an illegal address was read"); });
  const auto sentence = HasSubstr("the device failed and computes nothing more: an illegal address was read");
  EXPECT_THAT([&] { model->submit(plan, sequences)->wait(); }, ThrowsMessage<lacuna::DeviceError>(sentence));
  EXPECT_THAT([&] { model->submit(plan, sequences)->wait(); }, ThrowsMessage<lacuna::DeviceError>(sentence));
}

TEST(SimulatedCudaModel, TakesPassesOfOthersWhileOneThreadWaits) {
  const ModelConfig config = supported_configs().front();
  const auto device = open_cuda_device(0);
  const auto model = load_on_cuda(device, one_thread(), {}, config, DType::kBF16, kWeightSeed, {}, {1 << 20});
  const auto pool = model->make_pool(KvPool::kNoLimit);
  const auto first = pool->make_sequence({256}), second = pool->make_sequence({256});
  const std::vector<KvSequence*> of_first = {first.get()}, of_second = {second.get()};
  const StepPlan plan = canvas_plan(random_tokens(2, 5, config.vocab_size), own_rows_of(config));
  for (int i = 0; i < 2; ++i) {  // the second round is a graph, which needs more memory
    const auto one = model->submit(plan, of_first), other = model->submit(plan, of_second);
    one->wait();
  }
  std::promise<void> has_begun, is_sent;
  bool was_sent = false;
  device->stream()->stream.enqueue([&] {
    has_begun.set_value();
    was_sent = is_sent.get_future().wait_for(std::chrono::seconds(20)) == std::future_status::ready;
  });
  const auto ticket = model->submit(plan, of_first);
  std::thread other([&] {
    has_begun.get_future().wait();
    const auto others = model->submit(plan, of_second);
    is_sent.set_value();
    others->wait();
  });
  ticket->wait();
  other.join();
  EXPECT_TRUE(was_sent);
}

TEST(SimulatedCudaDevice, WorksOnAfterAPassForWhichThereWasTooLittleMemory) {
  DeviceStream device;
  bool has_run = false;
  const auto run_out_of_memory = [&] {
    on_stream(device, [&] {
      device.stream.enqueue([&] { has_run = true; });
      throw DeviceMemoryError("cudaMalloc of 3.0 MiB, with 1.0 MiB free: out of memory");
    });
  };
  EXPECT_THAT(run_out_of_memory, ThrowsMessage<std::runtime_error>(HasSubstr("too little memory left")));
  EXPECT_TRUE(has_run);  // nothing that was sent reads memory that its owner has given up
  EXPECT_EQ(device.failure, "");
  EXPECT_EQ(on_stream(device, [] { return 7; }), 7);
}

TEST(SimulatedCudaDevice, HasFailedIfWhatWasSentBeforeMemoryRanOutFails) {
  DeviceStream device;
  const auto run = [&] {
    on_stream(device, [&] {
      device.stream.enqueue([] { throw std::runtime_error("an illegal address was read"); });
      throw DeviceMemoryError("cudaMalloc of 3.0 MiB, with 1.0 MiB free: out of memory");
    });
  };
  const auto sentence = HasSubstr("the device failed and computes nothing more: an illegal address was read");
  EXPECT_THAT(run, ThrowsMessage<lacuna::DeviceError>(sentence));
  EXPECT_THAT([&] { on_stream(device, [] {}); }, ThrowsMessage<lacuna::DeviceError>(sentence));
}

TEST(SimulatedCudaPool, RecordsAFailureWhenItReadsOrMakesASequence) {
  const ModelConfig config = supported_configs().front();
  const auto device = open_cuda_device(0);
  const auto model = load_on_cuda(device, one_thread(), {}, config, DType::kBF16, kWeightSeed, {}, {1 << 20});
  const auto pool = model->make_pool(KvPool::kNoLimit);
  const auto sequence = pool->make_sequence({64});
  const int64_t bytes = pool->bytes();
  std::vector<float> keys(static_cast<size_t>(config.head_dim)), values(keys.size());
  device->stream()->stream.enqueue([] { throw std::runtime_error("an illegal address was read"); });
  const auto sentence = HasSubstr("the device failed and computes nothing more: an illegal address was read");
  const auto read = [&] {
    sequence->read_cells(0, 0, {0, 1}, {keys.data(), 1, config.head_dim},
                         {values.data(), 1, config.head_dim});
  };
  EXPECT_THAT(read, ThrowsMessage<lacuna::DeviceError>(sentence));
  EXPECT_THAT([&] { pool->make_sequence({64}); }, ThrowsMessage<lacuna::DeviceError>(sentence));
  EXPECT_EQ(pool->bytes(), bytes);
}

TEST(SimulatedCudaDevice, IsNamed) {
  EXPECT_EQ(open_cuda_device(0)->name(), "simulator");
  EXPECT_EQ(cuda_build(), CudaBuild::kSimulator);
  EXPECT_THAT([] { open_cuda_device(1); }, ThrowsMessage<InputError>(HasSubstr("cuda:1")));
}

}  // namespace
}  // namespace lacuna::cuda::cuda_model_simulated_test
