// device.h and check_cuda.h for the CUDA runtime.
#include <fmt/core.h>

#include "backend/cuda/check_cuda.h"
#include "backend/cuda/device.h"
#include "backend/cuda/runtime.h"

namespace lacuna::cuda {
namespace {

/// Whether all later CUDA calls of the process fail, too: earlier work has failed on the device.
bool is_final(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorExternalDevice:
      return true;
    default:
      return false;
  }
}

DeviceInfo describe(int number) {
  cudaDeviceProp properties = {};
  check_call("cudaGetDeviceProperties", cudaGetDeviceProperties(&properties, number));
  DeviceInfo device;
  device.name = properties.name;
  device.total = static_cast<int64_t>(properties.totalGlobalMem);
  device.major = properties.major;
  device.minor = properties.minor;
  device.num_processors = properties.multiProcessorCount;
  return device;
}

}  // namespace

std::string sentence_of(const char* call, cudaError_t error) {
  std::string sentence = fmt::format("{}: {} ({})", call, cudaGetErrorString(error), cudaGetErrorName(error));
  if (is_final(error)) {
    sentence +=
        "; a kernel or a copy that was sent before has failed, and this process cannot use the device again";
  }
  if (error == cudaErrorNoKernelImageForDevice) {
    sentence += "; this build has kernels for " LACUNA_CUDA_ARCHITECTURES " (CMAKE_CUDA_ARCHITECTURES)";
  }
  return sentence;
}

void check_call(const char* call, cudaError_t error) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // clears the error, so that the next call does not report it again
  const std::string sentence = sentence_of(call, error);
  if (error == cudaErrorMemoryAllocation) throw DeviceMemoryError(sentence);
  throw CudaError(sentence);
}

DeviceList list_devices() {
  DeviceList list;
  cudaRuntimeGetVersion(&list.runtime_version);
  cudaDriverGetVersion(&list.driver_version);  // 0 without a driver
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  cudaGetLastError();
  if (error != cudaSuccess) {
    list.why_none = sentence_of("cudaGetDeviceCount", error);
    if (list.driver_version == 0) list.why_none = "no NVIDIA driver was found; " + list.why_none;
    return list;
  }
  try {
    for (int number = 0; number < count; ++number) list.devices.push_back(describe(number));
    if (count == 0) list.why_none = "the CUDA driver finds no device";
  } catch (const std::exception& failure) {
    list.devices.clear();
    list.why_none = failure.what();
  }
  return list;
}

int num_devices() {
  return static_cast<int>(list_devices().devices.size());
}

void use_device(int index) {
  check_call(fmt::format("cudaSetDevice({})", index).c_str(), cudaSetDevice(index));
}

std::string device_name(int index) {
  return fmt::format("cuda:{} ({})", index, describe(index).name);
}

DeviceMemory device_memory() {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  check_call("cudaMemGetInfo", cudaMemGetInfo(&free_bytes, &total_bytes));
  return {static_cast<int64_t>(total_bytes), static_cast<int64_t>(free_bytes)};
}

int64_t most_shared_bytes() {
  int device = 0;
  int bytes = 0;
  check_call("cudaGetDevice", cudaGetDevice(&device));
  check_call("cudaDeviceGetAttribute(MaxSharedMemoryPerBlockOptin)",
             cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return bytes;
}

}  // namespace lacuna::cuda
