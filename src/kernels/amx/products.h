// What AMX multiplies, and what its file needs of one that is compiled for any CPU.
#pragma once

#include "kernels/table.h"

namespace lacuna::amx {

/// KernelTable::panel_product_bf16
void dense_panel_product(const PanelProduct& p);
/// KernelTable::panel_product_bf16_quantised
void coded_panel_product(const PanelProduct& p);

/// KernelTable::byte_rows: products of tiles of bytes, where sums are scaled. Groups would have to be scaled
/// after every half of a tile.
float round_row_to_bytes(const void* packed, const RowStrides& strides, int64_t padded_count, void* out,
                         float* steps);
void byte_panel_product(const PanelProduct& p);
inline bool takes_byte_rows(const Quantisation& quantisation) {
  return quantisation.scales_sums();
}

/// At least `count` floats, until this thread asks again. Not in the products' own file: the linker might
/// keep its copy of Buffer's members, which AVX-512 may be in, for the whole program.
float* space_of_thread(int64_t count);

}  // namespace lacuna::amx
