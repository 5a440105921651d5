// gpu_check: benchmarks and checks the kernels of the CUDA backend on a GPU, with lines of JSON on standard
// output. `make gpu-check` runs it. Exit codes: 0: success, 1: a bitwise check or a call failed, 2: wrong
// usage, 77: no device.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <vector>

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
  bool once = false;
  bool only_devices = false;
  double copy_gbs = 0;
  // Empty or 0: all sections, and the values of tiny_sizes() or full_sizes().
  std::vector<std::string> only, shapes, formats;
  std::vector<int64_t> rows, attention_rows, cells;
  int plans = 0;
};

struct Section {
  const char* name;
  std::function<void(Stream&, const CheckSizes&, uint64_t seed, CheckReport&)> run;
};

template <void (*measure)(Stream&, const CheckSizes&, CheckReport&)>
void without_seed(Stream& stream, const CheckSizes& sizes, uint64_t, CheckReport& report) {
  measure(stream, sizes, report);
}

/// All sections, in the order in which they run.
const std::vector<Section>& sections() {
  static const std::vector<Section> all = {{"sums", check_sums},
                                           {"invariance", check_invariance},
                                           {"peaks", without_seed<measure_peaks>},
                                           {"products", without_seed<measure_products>},
                                           {"attention", without_seed<measure_attention>},
                                           {"statistics", without_seed<measure_statistics>}};
  return all;
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

CheckSizes sizes_of(const Options& options) {
  CheckSizes sizes = options.tiny ? tiny_sizes() : full_sizes();
  if (!options.rows.empty()) sizes.rows = options.rows;
  if (!options.attention_rows.empty()) sizes.attention_rows = options.attention_rows;
  if (!options.cells.empty()) sizes.cells = options.cells;
  if (options.plans > 0) sizes.plans = options.plans;
  sizes.formats = options.formats;
  std::erase_if(sizes.weights, [&](const WeightShape& shape) { return !has(options.shapes, shape.name); });
  std::erase_if(sizes.attention,
                [&](const AttentionShape& shape) { return !has(options.shapes, shape.name); });
  if (options.once) {
    sizes.rotate_bytes = 1;
    sizes.timed_calls = 1;
    sizes.repeat = 1;
  }
  return sizes;
}

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
  report.copy_bytes_per_second = 1e9 * options.copy_gbs;
  const CheckSizes sizes = sizes_of(options);
  Stream stream;
  for (const Section& section : sections()) {
    if (has(options.only, section.name)) section.run(stream, sizes, options.seed, report);
  }
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
  app.add_flag("--once", options.once,
               "Runs each kernel a few times, for a profiler; times then mean little");
  std::vector<std::string> names;
  for (const auto& section : lacuna::cuda::sections()) names.emplace_back(section.name);
  app.add_option("--only", options.only, "Sections, separated by commas (default: all)")
      ->delimiter(',')
      ->check(CLI::IsMember(names));
  app.add_option("--copy-gbs", options.copy_gbs,
                 "Bandwidth of a copy that an earlier run has measured, for shares of it");
  app.add_option("--plans", options.plans, "Random plans per kernel whose bits are compared");
  app.add_option("--shapes", options.shapes, "Names of weights and attentions (default: all)")
      ->delimiter(',');
  app.add_option("--formats", options.formats, "Of weights: bf16, int8, fp8, int4 (default: all)")
      ->delimiter(',');
  app.add_option("--rows", options.rows, "Of products")->delimiter(',');
  app.add_option("--attention-rows", options.attention_rows, "Of attention")->delimiter(',');
  app.add_option("--cells", options.cells, "Of attention")->delimiter(',');
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
