// The kernels of OpenBLAS, behind LibTorch's f32 matmuls.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lacuna::train {

/// The best value of OPENBLAS_CORETYPE for a processor with these instructions that OpenBLAS detects as
/// `core`; none if `core` already uses the widest vectors. OpenBLAS detects processors by model number: on
/// models newer than itself it uses SSE3 kernels, at a sixth of the speed.
std::optional<std::string> better_blas_core(std::string_view core, bool has_avx2, bool has_avx512);

/// Sets OPENBLAS_CORETYPE and re-executes the program with the same arguments, because OpenBLAS reads the
/// variable before main(). Returns without effect if OpenBLAS is absent, detected the processor correctly, or
/// the variable is already set. Reports a re-execution on standard error.
void use_best_blas_kernels(char** argv);

}  // namespace lacuna::train
