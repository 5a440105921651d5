#include "backend/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cuda/cuda_model.h"
#include "base/error.h"
#include "model/tiny_models.h"

namespace lacuna::device_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using Kind = DeviceName::Kind;

TEST(DeviceName, IsReadFromWhatPeopleType) {
  EXPECT_EQ(device_named("cpu"), DeviceName{});
  for (const char* text : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "CPU"}) {
    EXPECT_THAT([&] { device_named(text); },
                ThrowsMessage<InputError>(HasSubstr("expected auto, cpu, cuda:N or simulator")))
        << text;
  }
  EXPECT_THAT([] { device_named("gpu", "device"); }, ThrowsMessage<InputError>(HasSubstr("device is gpu;")));
}

TEST(DeviceName, NamesWhatThisBuildHas) {
  const bool has_cuda = cuda_build() == CudaBuild::kCuda;
  const bool has_device = has_cuda && num_cuda_devices() > 0;
  EXPECT_EQ(device_named("auto"), has_device ? (DeviceName{Kind::kCuda, 0}) : DeviceName{});
  EXPECT_THAT([] { device_named("cuda:1000"); },
              ThrowsMessage<InputError>(
                  HasSubstr(has_cuda ? "cuda:1000; this machine has" : "cuda:1000; this build has no CUDA")));
  if (cuda_build() == CudaBuild::kSimulator) {
    EXPECT_EQ(device_named("simulator").kind, Kind::kSimulator);
    EXPECT_EQ(describe_devices(), "cpu, simulator");
  } else {
    EXPECT_THAT([] { device_named("simulator"); },
                ThrowsMessage<InputError>(HasSubstr("this build has no simulator of CUDA threads")));
    EXPECT_TRUE(describe_devices().starts_with("cpu"));
  }
}

TEST(Device, LoadsModelsWhereItsNameSays) {
  const auto host = std::make_shared<const CpuDevice>(1);
  ModelConfig config = tiny_configs()[0];
  config.head_dim = 32;
  const auto load = [&](std::string_view name) {
    return load_on(open_device(device_named(name), host), {}, config, DType::kBF16, 1, {});
  };
  EXPECT_EQ(load("cpu")->device(), host->kernels().name);
  if (cuda_build() == CudaBuild::kSimulator) {
    EXPECT_EQ(load("simulator")->device(), "simulator");
  }
}

}  // namespace
}  // namespace lacuna::device_test
