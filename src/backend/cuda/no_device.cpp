// Replaces the CUDA backend in builds with neither CUDA nor the simulator.
#include "backend/cuda/cuda_model.h"
#include "base/error.h"

namespace lacuna {

CudaBuild cuda_build() {
  return CudaBuild::kNone;
}

int num_cuda_devices() {
  return 0;
}

std::string why_no_cuda_device() {
  return "this build has neither CUDA nor the simulator of CUDA threads";
}

std::shared_ptr<const CudaDevice> open_cuda_device(int /*index*/) {
  throw InputError("this build has neither CUDA nor the simulator of CUDA threads");
}

int64_t weight_bytes_on_device(const ModelConfig& /*config*/, const WeightFormats& /*formats*/,
                               const WeightSource* /*stored*/) {
  throw InputError("this build has neither CUDA nor the simulator of CUDA threads");
}

std::shared_ptr<const BackendModel> load_on_cuda(
    const std::shared_ptr<const CudaDevice>& /*device*/, std::shared_ptr<const CpuDevice> /*host*/,
    const std::filesystem::path& /*folder*/, const ModelConfig& /*config*/, const WeightFormats& /*formats*/,
    uint64_t /*random_seed*/, const LoadProgress& /*progress*/, const CudaOptions& /*options*/) {
  throw InputError("this build has neither CUDA nor the simulator of CUDA threads");
}

}  // namespace lacuna
