// The backend where only the simulator can show it: its memory is small, and its work can be made to fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "backend/cuda/cuda_model.h"
#include "backend/cuda/device_model.h"
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

TEST(SimulatedCudaDevice, IsNamed) {
  EXPECT_EQ(open_cuda_device(0)->name(), "simulator");
  EXPECT_EQ(cuda_build(), CudaBuild::kSimulator);
  EXPECT_THAT([] { open_cuda_device(1); }, ThrowsMessage<InputError>(HasSubstr("cuda:1")));
}

}  // namespace
}  // namespace lacuna::cuda::cuda_model_simulated_test
