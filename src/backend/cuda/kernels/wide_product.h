// Products of many rows: tiles of 128 rows and 128 outputs, with the bits of product() and
// quantized_product().
#pragma once

#include "backend/cuda/kernels/product.h"
#include "backend/cuda/kernels/quantized_product.h"

namespace lacuna::cuda {

/// product() of any number of rows: each output is the same sums in the same order, so that which of the two
/// computes a row changes no bit of it.
void wide_product(Stream& stream, const ProductArguments& arguments);
/// quantized_product() of any number of rows, likewise.
void wide_quantized_product(Stream& stream, const QuantizedProductArguments& arguments);

}  // namespace lacuna::cuda
