// Devices that compute passes, by the names that users give them: this machine, a CUDA device, or the
// simulator of CUDA threads.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/cpu_backend.h"

namespace lacuna {

class CudaDevice;

struct DeviceName {
  enum class Kind : uint8_t {
    kCpu,
    kCuda,
    kSimulator,  ///< CUDA kernels on simulated threads: for tests, hundreds of times slower
  };
  Kind kind = Kind::kCpu;
  int index = 0;  ///< N of cuda:N; used by kCuda only

  bool operator==(const DeviceName&) const = default;
};

/// Parses "auto", "cpu", "cuda", "cuda:N" or "simulator". "auto" is the first CUDA device if the build has
/// CUDA and the machine a device, else the CPU. Throws InputError for other text and unavailable devices.
///   field  name of the option or field with the text, at the start of error messages
DeviceName device_named(std::string_view text, std::string_view field = "--device");

/// Devices that this build can use: "cpu", then "simulator" or "cuda:0", "cuda:1", ... if available.
std::vector<std::string> device_list();
/// device_list() as one text, for --version: "cpu, simulator".
std::string describe_devices();

/// A device for models, and the host, whose threads pack weights and sample the rows that the device does not
/// (is_drawn_on_device()).
struct Device {
  std::shared_ptr<const CpuDevice> host;
  std::shared_ptr<const CudaDevice> cuda = nullptr;  ///< null: `host` computes
};
Device open_device(const DeviceName& name, std::shared_ptr<const CpuDevice> host);

/// Reads the weights of a checkpoint, or makes random ones, as load_on_cpu() does. Throws InputError.
std::shared_ptr<const BackendModel> load_on(const Device& device, const std::filesystem::path& folder,
                                            const ModelConfig& config, const WeightFormats& formats,
                                            uint64_t random_seed, const LoadProgress& progress);

}  // namespace lacuna
