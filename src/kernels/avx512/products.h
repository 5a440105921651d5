// Declares the AVX512-BF16 kernels for code that is not compiled for AVX512-BF16.
#pragma once

#include "kernels/table.h"

namespace lacuna::avx512 {

/// KernelTable::pack_row_bf16
float pack_row(const float* x, int64_t count, int64_t padded_count, void* out);
/// KernelTable::panel_product_bf16
void dense_panel_product(const PanelProduct& p);
/// KernelTable::panel_product_bf16_quantized
void quantized_panel_product(const PanelProduct& p);
/// KernelTable::int16_activations and int8_activations, for rows that pack_row() wrote
float quantize_row_to_int16(const void* packed, const RowStrides& strides, int64_t padded_count, void* out,
                            float* scales);
float quantize_row_to_int8(const void* packed, const RowStrides& strides, int64_t padded_count, void* out,
                           float* scales);

}  // namespace lacuna::avx512
