// Checks the results of CUDA runtime calls. Included only by files that are compiled with CUDA.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace lacuna::cuda {

/// A sentence about an error of the CUDA runtime.
std::string sentence_of(const char* call, cudaError_t error);

/// Throws DeviceMemoryError if device memory is exhausted, CudaError for other errors.
void check_call(const char* call, cudaError_t error);

}  // namespace lacuna::cuda
