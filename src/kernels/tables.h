// One maker per instruction set. Only dispatch.cpp and the wider tables call these: a table may be made
// anywhere, but its functions run only where the CPU has the instructions.
#pragma once

#include "kernels/table.h"

namespace lacuna {

KernelTable make_scalar_table();
KernelTable make_avx2_table();
KernelTable make_avx512_table();
KernelTable make_amx_table();

}  // namespace lacuna
