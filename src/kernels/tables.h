// One table per instruction set, for isas_x86.cpp, isas_arm.cpp and wider tables only. Any CPU may read a
// table, but only CPUs with the instructions may run its kernels. Tables are constants, because code that
// fills one would itself be compiled for the instruction set.
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
