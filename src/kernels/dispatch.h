// CPU detection and the choice of a kernel table.
#pragma once

#include <string_view>
#include <vector>

#include "kernels/table.h"

namespace lacuna {

/// Instruction sets that the CPU has and the system lets programs use: those of x86 or those of ARM.
struct CpuFeatures {
  bool avx2 = false;       ///< with FMA and F16C
  bool avx512 = false;     ///< F, BW, DQ, VL, BF16 and VNNI
  bool amx = false;        ///< TILE, BF16 and INT8, with the system's permission to use tile data
  bool neon = false;       ///< ARMv8.2 with dot products of bytes and arithmetic on f16
  bool neon_i8mm = false;  ///< and matrix products of bytes and of bf16 (ARMv8.6)
};

/// Asks the CPU; on Linux and x86 also asks the system for AMX tile data, once per process.
CpuFeatures detect_cpu();

/// Returns the widest table that `features` allow, or the one named by `wanted` if that is not empty. Throws
/// InputError, naming LACUNA_ISA, if the name is unknown or the CPU lacks its instructions.
KernelTable choose_table(const CpuFeatures& features, std::string_view wanted);

/// Returns every table that this machine can run, scalar first.
std::vector<KernelTable> supported_tables();

/// Returns the table of this process: the widest, or the one that the environment variable LACUNA_ISA names.
const KernelTable& default_table();

}  // namespace lacuna
