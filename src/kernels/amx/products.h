// Declares the AMX kernels for code that is not compiled for AMX.
#pragma once

#include "kernels/table.h"

namespace lacuna::amx {

/// KernelTable::panel_product_bf16
void dense_panel_product(const PanelProduct& p);
/// KernelTable::panel_product_bf16_quantized
void quantized_panel_product(const PanelProduct& p);

/// KernelTable::int8_activations: int8 tiles, for formats with one scale per output channel. Group scales
/// would have to be applied after every half of a tile.
float quantize_row_to_int8(const void* packed, const RowStrides& strides, int64_t padded_count, void* out,
                           float* k_steps);
void int8_panel_product(const PanelProduct& p);
inline bool takes_int8_activations(const Quantization& quantization) {
  return quantization.scales_sums();
}

/// Returns scratch memory of at least `count` floats, valid until this thread's next call. Not defined in
/// products.cpp: the linker might use that file's AVX-512 copy of Buffer's members in the whole program.
float* thread_scratch(int64_t count);

}  // namespace lacuna::amx
