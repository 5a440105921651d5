// The product of rows and a matrix in f32, without tensor cores: for tests and comparisons.
#pragma once

#include "backend/cuda/kernels/product.h"

namespace lacuna::cuda {

/// Of `x_f32` and `weights_f32`, any number of rows; what is activated goes to `out_f32`, too, and what lies
/// behind it up to the stride becomes 0.
void f32_product(Stream& stream, const ProductArguments& arguments);

}  // namespace lacuna::cuda
