// The product of rows and a matrix in f32, without tensor cores: for tests and comparisons.
#pragma once

#include "backend/cuda/kernels/product.h"

namespace lacuna::cuda {

/// Multiplies any number of rows of `x_f32` with `weights_f32`. Activated outputs go to `out_f32`, too, and
/// the numbers behind them up to the stride become 0.
void f32_product(Stream& stream, const ProductArguments& arguments);

}  // namespace lacuna::cuda
