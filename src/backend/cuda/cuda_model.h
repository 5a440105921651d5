// A backend that computes passes on a CUDA device: weights, keys and values stay there, and a pass is one
// stream of kernels. The same code runs on the simulator of CUDA threads, slowly, for tests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>

#include "backend/backend.h"
#include "backend/cpu/cpu_backend.h"
#include "model/parameters.h"

namespace lacuna {

namespace cuda {
struct DeviceStream;
}

/// A device that models are loaded on. They share its stream: their passes come one after the other.
class CudaDevice {
 public:
  explicit CudaDevice(int index);

  const std::string& name() const { return name_; }
  const std::shared_ptr<cuda::DeviceStream>& stream() const { return stream_; }

 private:
  std::string name_;
  std::shared_ptr<cuda::DeviceStream> stream_;
};

/// The CUDA support of a build.
enum class CudaBuild : uint8_t {
  kNone,       ///< neither CUDA nor the simulator; no_device.cpp is then all that there is
  kSimulator,  ///< the simulator of CUDA threads in the place of a device
  kCuda,
};
CudaBuild cuda_build();
/// Devices of this machine; the simulator is one.
int num_cuda_devices();
/// The reason, a sentence without a full stop, if there are none; else empty.
std::string why_no_cuda_device();
/// InputError.
std::shared_ptr<const CudaDevice> open_cuda_device(int index);

struct CudaOptions {
  /// The most that keys and values take; what is left of the device's memory may be less.
  int64_t kv_bytes = std::numeric_limits<int64_t>::max();
  /// Whether the layers of passes are sent as graphs where passes of one shape repeat.
  bool graphs = true;
};

/// Bytes of a model's weights on a device, where rows of the embedding are not quantized: what a checkpoint
/// or `stored`, as predicted_bytes() has it, needs before anything is allocated.
int64_t weight_bytes_on_device(const ModelConfig& config, const WeightFormats& formats,
                               const WeightSource* stored = nullptr);

/// Reads the weights of a checkpoint, or makes random ones, and brings them to the device. InputError where
/// the family, a format or a setting has no kernel, or the device too little memory.
///   host    draws what the device does not draw, and packs the weights on their way
///   others  as load_on_cpu() has them
std::shared_ptr<const BackendModel> load_on_cuda(const std::shared_ptr<const CudaDevice>& device,
                                                 std::shared_ptr<const CpuDevice> host,
                                                 const std::filesystem::path& folder,
                                                 const ModelConfig& config, const WeightFormats& formats,
                                                 uint64_t random_seed, const LoadProgress& progress,
                                                 const CudaOptions& options = {});

}  // namespace lacuna
