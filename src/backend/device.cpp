#include "backend/device.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <optional>
#include <utility>

#include "backend/cuda/cuda_model.h"
#include "base/error.h"

namespace lacuna {
namespace {

/// N of "cuda:N", 0 for "cuda"; nothing for other text.
std::optional<int> cuda_index(std::string_view text) {
  constexpr std::string_view kCuda = "cuda";
  if (text == kCuda) return 0;
  if (!text.starts_with("cuda:")) return {};
  const std::string_view number = text.substr(kCuda.size() + 1);
  int index = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), index);
  const bool is_number = error == std::errc() && end == number.data() + number.size() && !number.empty();
  if (!is_number || index < 0) return {};
  return index;
}

}  // namespace

DeviceName device_named(std::string_view text, std::string_view field) {
  using Kind = DeviceName::Kind;
  if (text == "cpu") return {};
  if (text == "auto") {
    return cuda_build() == CudaBuild::kCuda && num_cuda_devices() > 0 ? DeviceName{Kind::kCuda, 0}
                                                                      : DeviceName{};
  }
  if (text == "simulator") {
    if (cuda_build() == CudaBuild::kSimulator) return {Kind::kSimulator, 0};
    throw InputError(
        "{} is simulator; this build has no simulator of CUDA threads (-DLACUNA_SIMULATOR=ON makes one that "
        "has); expected {}",
        field, describe_devices());
  }
  const std::optional<int> index = cuda_index(text);
  if (!index) throw InputError("{} is {}; expected auto, cpu, cuda:N or simulator", field, text);
  if (cuda_build() != CudaBuild::kCuda) {
    throw InputError("{} is {}; this build has no CUDA (-DLACUNA_CUDA=ON makes one that has); expected {}",
                     field, text, describe_devices());
  }
  const int count = num_cuda_devices();
  if (count == 0) {
    throw InputError("{} is {}; this machine has no CUDA device: {}", field, text, why_no_cuda_device());
  }
  if (*index >= count) {
    throw InputError("{} is {}; this machine has {} CUDA {}", field, text, count,
                     count == 1 ? "device" : "devices");
  }
  return {Kind::kCuda, *index};
}

std::vector<std::string> device_list() {
  std::vector<std::string> devices = {"cpu"};
  if (cuda_build() == CudaBuild::kSimulator) devices.emplace_back("simulator");
  if (cuda_build() != CudaBuild::kCuda) return devices;
  for (int i = 0; i < num_cuda_devices(); ++i) devices.push_back(fmt::format("cuda:{}", i));
  return devices;
}

std::string describe_devices() {
  return fmt::format("{}", fmt::join(device_list(), ", "));
}

Device open_device(const DeviceName& name, std::shared_ptr<const CpuDevice> host) {
  Device device{std::move(host)};
  if (name.kind != DeviceName::Kind::kCpu) device.cuda = open_cuda_device(name.index);
  return device;
}

std::shared_ptr<const BackendModel> load_on(const Device& device, const std::filesystem::path& folder,
                                            const ModelConfig& config, const WeightFormats& formats,
                                            uint64_t random_seed, const LoadProgress& progress) {
  if (device.cuda == nullptr) return load_on_cpu(device.host, folder, config, formats, random_seed, progress);
  return load_on_cuda(device.cuda, device.host, folder, config, formats, random_seed, progress);
}

}  // namespace lacuna
