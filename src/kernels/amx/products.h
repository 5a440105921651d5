// What AMX multiplies, and what its file needs of one that is compiled for any CPU.
#pragma once

#include "kernels/table.h"

namespace lacuna::amx {

/// KernelTable::panel_product_bf16
void dense_panel_product(const PanelProduct& p);
/// KernelTable::panel_product_bf16_quantised
void coded_panel_product(const PanelProduct& p);

/// At least `count` floats, until this thread asks again. Not in the products' own file: the linker might
/// keep its copy of Buffer's members, which AVX-512 may be in, for the whole program.
float* space_of_thread(int64_t count);

}  // namespace lacuna::amx
