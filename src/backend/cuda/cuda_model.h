// CUDA backend: weights, keys and values stay on the device, and a pass is one stream of kernels. For tests,
// the same code runs on a simulator of CUDA threads.
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

/// A CUDA device. Its models share one stream, so their passes run one after the other.
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
  kNone,       ///< neither CUDA nor the simulator: only no_device.cpp is compiled
  kSimulator,  ///< the simulator of CUDA threads instead of a device
  kCuda,
};
CudaBuild cuda_build();
/// Number of CUDA devices of this machine; the simulator counts as one.
int num_cuda_devices();
/// Why there are no devices, a sentence without a full stop; empty if there are some.
std::string why_no_cuda_device();
/// Throws InputError.
std::shared_ptr<const CudaDevice> open_cuda_device(int index);

struct CudaOptions {
  /// Upper bound for K/V memory; free device memory may limit it further.
  int64_t kv_bytes = std::numeric_limits<int64_t>::max();
  /// Whether passes of repeated shapes launch their layers as CUDA graphs.
  bool graphs = true;
};

/// Predicts the bytes of a model's weights on a device, where the embedding is not quantized.
///   stored  see predicted_bytes()
int64_t weight_bytes_on_device(const ModelConfig& config, const WeightFormats& formats,
                               const WeightSource* stored = nullptr);

/// Reads the weights of a checkpoint, or makes random ones, and uploads them. Throws InputError if the
/// family, a format or a setting has no kernel, or if device memory is too small.
///   host    packs weights, and samples the rows that the device does not sample
///   others  see load_on_cpu()
std::shared_ptr<const BackendModel> load_on_cuda(const std::shared_ptr<const CudaDevice>& device,
                                                 std::shared_ptr<const CpuDevice> host,
                                                 const std::filesystem::path& folder,
                                                 const ModelConfig& config, const WeightFormats& formats,
                                                 uint64_t random_seed, const LoadProgress& progress,
                                                 const CudaOptions& options = {});

}  // namespace lacuna
