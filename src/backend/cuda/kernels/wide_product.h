// GEMM of many rows in tiles of 128 rows by 128 outputs, bitwise identical to product() and
// quantized_product().
#pragma once

#include "backend/cuda/kernels/product.h"
#include "backend/cuda/kernels/quantized_product.h"

namespace lacuna::cuda {

/// product() for any number of rows, with the same order of additions.
void wide_product(Stream& stream, const ProductArguments& arguments);
/// quantized_product() for any number of rows, with the same order of additions.
void wide_quantized_product(Stream& stream, const QuantizedProductArguments& arguments);

}  // namespace lacuna::cuda
