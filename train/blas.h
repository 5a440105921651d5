// The kernels of OpenBLAS, behind LibTorch's f32 matmuls.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lacuna::train {

/// The name that OPENBLAS_CORETYPE should have on a processor with these instructions, where OpenBLAS took it
/// for `core`; none where `core` uses the widest vectors already. OpenBLAS knows processors by their model:
/// on one that is newer than itself it takes kernels for SSE3, with a sixth of the speed.
std::optional<std::string> better_blas_core(std::string_view core, bool has_avx2, bool has_avx512);

/// Sets OPENBLAS_CORETYPE and runs the program again with its arguments, if OpenBLAS is there, has taken this
/// processor for an older one, and the variable is not set: OpenBLAS reads it before main() begins. Returns
/// otherwise. Says on standard error what it did.
void use_best_blas_kernels(char** argv);

}  // namespace lacuna::train
