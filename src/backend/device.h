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
    kSimulator,  ///< the code of kCuda on simulated threads: a test device, hundreds of times slower
  };
  Kind kind = Kind::kCpu;
  int index = 0;  ///< N of cuda:N; used by kCuda only

  bool operator==(const DeviceName&) const = default;
};

/// "auto", "cpu", "cuda", "cuda:N" or "simulator". "auto" is the first CUDA device of a build with CUDA where
/// there is one, else this machine. Throws InputError for any other text, and for a device that this build
/// does not have.
///   field  that the text was given for, with which the error begins
DeviceName device_named(std::string_view text, std::string_view field = "--device");

/// Devices that this build can compute on: "cpu", and where it has them "simulator", or "cuda:0" and so on.
std::vector<std::string> device_list();
/// The same in one text, for --version: "cpu, simulator".
std::string describe_devices();

/// A device that models are loaded on, and this machine, whose threads pack weights and draw what the device
/// does not.
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
