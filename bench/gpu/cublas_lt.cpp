#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fmt/core.h>

#include <cstdlib>
#include <stdexcept>

#include "bench/gpu/device_timing.h"
#include "bench/gpu/library_product.h"

namespace lacuna::cuda {
namespace {

constexpr size_t kWorkspaceBytes = size_t{32} << 20;

struct LibraryError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void check_library(const char* call, cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw LibraryError(fmt::format("{} failed with status {}", call, static_cast<int>(status)));
  }
}

void* opened_library() {
  const char* chosen = std::getenv("LACUNA_CUBLASLT");
  for (const char* name : {chosen, "libcublasLt.so.13", "libcublasLt.so"}) {
    void* library = name != nullptr ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (library != nullptr) return library;
  }
  throw LibraryError("libcublasLt.so.13 was not found; LACUNA_CUBLASLT=FILE names it");
}

template <typename Function>
Function function_of(void* library, const char* name) {
  void* found = dlsym(library, name);
  if (found == nullptr) throw LibraryError(fmt::format("libcublasLt has no {}", name));
  return reinterpret_cast<Function>(found);
}

#define LACUNA_LIBRARY_FUNCTION(name) \
  decltype(&cublasLt##name) name = function_of<decltype(&cublasLt##name)>(library, "cublasLt" #name)

/// Entry points of cuBLASLt.
struct Library {
  void* library = opened_library();
  LACUNA_LIBRARY_FUNCTION(Create);
  LACUNA_LIBRARY_FUNCTION(Matmul);
  LACUNA_LIBRARY_FUNCTION(MatmulDescCreate);
  LACUNA_LIBRARY_FUNCTION(MatmulDescSetAttribute);
  LACUNA_LIBRARY_FUNCTION(MatrixLayoutCreate);
  LACUNA_LIBRARY_FUNCTION(MatmulPreferenceCreate);
  LACUNA_LIBRARY_FUNCTION(MatmulPreferenceSetAttribute);
  LACUNA_LIBRARY_FUNCTION(MatmulAlgoGetHeuristic);
  cublasLtHandle_t handle = nullptr;

  Library() { check_library("cublasLtCreate", Create(&handle)); }
};

#undef LACUNA_LIBRARY_FUNCTION

/// One GEMM with the library's preferred algorithm. Its descriptors are never freed; the program makes about
/// a hundred.
class Plan {
 public:
  Plan(const Library& library, const LibraryProduct& product) : library_(library) {
    check_library("cublasLtMatmulDescCreate",
                  library.MatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    const cublasOperation_t transposed = CUBLAS_OP_T;
    check_library("cublasLtMatmulDescSetAttribute",
                  library.MatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                                 sizeof(transposed)));
    // In the library's column-major order, weights are inputs x outputs, and x is inputs x rows.
    weights_ = layout(product.inputs, product.outputs);
    x_ = layout(product.inputs, product.rows);
    out_ = layout(product.outputs, product.rows);
    cublasLtMatmulPreference_t preference = nullptr;
    check_library("cublasLtMatmulPreferenceCreate", library.MatmulPreferenceCreate(&preference));
    check_library("cublasLtMatmulPreferenceSetAttribute",
                  library.MatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                       &kWorkspaceBytes, sizeof(kWorkspaceBytes)));
    int count = 0;
    check_library("cublasLtMatmulAlgoGetHeuristic",
                  library.MatmulAlgoGetHeuristic(library.handle, operation_, weights_, x_, out_, out_,
                                                 preference, 1, &chosen_, &count));
    if (count == 0) throw LibraryError("cublasLtMatmulAlgoGetHeuristic found no algorithm");
  }

  void run(const LibraryProduct& product, int i, void* workspace, cudaStream_t stream) const {
    const float one = 1;
    const float zero = 0;
    const uint16_t* weights = product.weights[static_cast<size_t>(i) % product.weights.size()];
    check_library("cublasLtMatmul", library_.Matmul(library_.handle, operation_, &one, weights, weights_,
                                                    product.x, x_, &zero, product.out, out_, product.out,
                                                    out_, &chosen_.algo, workspace, kWorkspaceBytes, stream));
  }

 private:
  cublasLtMatrixLayout_t layout(int64_t rows, int64_t columns) const {
    cublasLtMatrixLayout_t made = nullptr;
    check_library("cublasLtMatrixLayoutCreate",
                  library_.MatrixLayoutCreate(&made, CUDA_R_16BF, static_cast<uint64_t>(rows),
                                              static_cast<uint64_t>(columns), rows));
    return made;
  }

  const Library& library_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t weights_ = nullptr, x_ = nullptr, out_ = nullptr;
  cublasLtMatmulHeuristicResult_t chosen_ = {};
};

}  // namespace

LibraryTime time_of_library(Stream& stream, const LibraryProduct& product, int count, int repeat) {
  try {
    static const Library library;
    static const DeviceBuffer workspace(kWorkspaceBytes);
    const Plan plan(library, product);
    const auto send = [&](int i) {
      plan.run(product, i, workspace.as<std::byte>(), static_cast<cudaStream_t>(stream.native()));
    };
    send(0);  // the library loads its kernels at the first call, which cannot be recorded
    stream.wait();
    return {.seconds = seconds_of_call(stream, count, repeat, send), .why_not = ""};
  } catch (const LibraryError& error) {
    return {.seconds = 0, .why_not = error.what()};
  }
}

}  // namespace lacuna::cuda
