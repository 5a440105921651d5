// gpu_check: what a GPU does with the kernels of the CUDA backend, as lines of JSON on standard output. `make
// gpu-check` runs it. Exit codes: 0, 1: a row's bits depend on its company, or a call failed, 2: wrong usage,
// 77: there is no device.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "backend/cuda/device.h"
#include "bench/gpu/gpu_check.h"

namespace lacuna::cuda {
namespace {

constexpr int kNoDevice = 77;

struct Options {
  int device = 0;
  std::string commit = "unknown";
  uint64_t seed = 1;
  bool tiny = false;
  bool only_devices = false;
};

int run(const Options& options) {
  const DeviceList list = list_devices();
  if (list.devices.empty()) {
    fmt::print(stderr, "gpu_check: there is no CUDA device: {}\n", list.why_none);
    return kNoDevice;
  }
  if (options.device < 0 || options.device >= static_cast<int>(list.devices.size())) {
    fmt::print(stderr, "gpu_check: --device {}: there are devices 0 to {}\n", options.device,
               list.devices.size() - 1);
    return 2;
  }
  use_device(options.device);
  const DeviceInfo& device = list.devices[static_cast<size_t>(options.device)];
  const DeviceMemory memory = device_memory();
  CheckReport report({{"device", device.name},
                      {"driver", version_text(list.driver_version)},
                      {"cuda", version_text(list.runtime_version)},
                      {"commit", options.commit}},
                     [](const CheckReport::Line& line) {
                       fmt::print("{}\n", line.dump());
                       std::fflush(stdout);
                     });
  report.add("device", {{"capability", fmt::format("{}.{}", device.major, device.minor)},
                        {"processors", device.num_processors},
                        {"total_bytes", memory.total},
                        {"free_bytes", memory.free}});
  if (options.only_devices) return 0;
  const CheckSizes sizes = options.tiny ? tiny_sizes() : full_sizes();
  Stream stream;
  check_sums(stream, sizes, options.seed, report);
  check_invariance(stream, sizes, options.seed, report);
  measure_peaks(stream, sizes, report);
  measure_products(stream, sizes, report);
  measure_attention(stream, sizes, report);
  measure_statistics(stream, sizes, report);
  return report.num_failures > 0 ? 1 : 0;
}

}  // namespace
}  // namespace lacuna::cuda

int main(int argc, char** argv) {
  lacuna::cuda::Options options;
  CLI::App app(
      "Measures a GPU with the kernels of the CUDA backend, and compares bits. Lines of JSON on standard "
      "output.",
      "gpu_check");
  app.add_option("--device", options.device, "Number of the device")->capture_default_str();
  app.add_option("--commit", options.commit, "Name of the commit, for the lines")->capture_default_str();
  app.add_option("--seed", options.seed, "Of random plans and numbers")->capture_default_str();
  app.add_flag("--tiny", options.tiny, "Tries everything with small sizes; times then mean nothing");
  app.add_flag("--only-device", options.only_devices, "Says which device there is, and no more");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    return lacuna::cuda::run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "gpu_check: {}\n", error.what());
    return 1;
  }
}
