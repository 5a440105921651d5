// Tests of kernels on a device. Without one, all are skipped: the reason is printed, and the exit code is 77.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "backend/cuda/device.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const lacuna::cuda::DeviceList list = lacuna::cuda::list_devices();
  if (list.devices.empty() && !GTEST_FLAG_GET(list_tests)) {
    fmt::print(stderr, "all tests are skipped: there is no CUDA device: {}\n", list.why_none);
    return 77;
  }
  return RUN_ALL_TESTS();
}
