// GEMM in f32, without tensor cores: for tests and comparisons.
#pragma once

#include "backend/cuda/kernels/product.h"

namespace lacuna::cuda {

/// Multiplies any number of rows of `x_f32` with `weights_f32` and writes `out_f32`. After activations, the
/// row padding up to the stride is set to 0.
void f32_product(Stream& stream, const ProductArguments& arguments);

}  // namespace lacuna::cuda
