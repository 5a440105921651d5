// Calls of the CUDA runtime, checked. Included by the CUDA bodies alone.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace lacuna::cuda {

/// A sentence about an error of the CUDA runtime.
std::string sentence_of(const char* call, cudaError_t error);

/// Throws if `error` is one: DeviceMemoryError if memory is short, else CudaError.
void check_call(const char* call, cudaError_t error);

}  // namespace lacuna::cuda
