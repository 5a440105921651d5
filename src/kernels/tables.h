// One table per instruction set. Only isas_x86.cpp, isas_arm.cpp and the wider tables call these functions: a
// table may be read anywhere, but its kernels run only where the CPU has the instructions. That is why tables
// are constants: code that fills one would itself be compiled for the instruction set.
#pragma once

#include "kernels/table.h"

namespace lacuna {

const KernelTable& scalar_table();
const KernelTable& avx2_table();
const KernelTable& avx512_fma_table();
const KernelTable& avx512_table();
const KernelTable& amx_table();
const KernelTable& neon_table();
const KernelTable& neon_i8mm_table();

}  // namespace lacuna
