// CPU detection and the instruction sets of the target architecture. cmake/lacuna.cmake chooses isas_x86.cpp,
// isas_arm.cpp or isas_none.cpp.
#pragma once

#include <span>
#include <string_view>

#include "kernels/table.h"

namespace lacuna {

/// Instruction sets that the CPU has and the operating system permits, of x86 or of ARM.
struct CpuFeatures {
  bool avx2 = false;            ///< with FMA and F16C
  bool avx512_fma = false;      ///< AVX-512 F, BW, DQ, VL and VNNI
  bool avx512 = false;          ///< avx512_fma and BF16
  bool fast_bf16_dots = false;  ///< a BF16 pair dot product is faster than two FMAs (not on Intel)
  bool amx = false;             ///< TILE, BF16 and INT8, with the system's permission to use tile data
  bool neon = false;            ///< ARMv8.2 with dot products of bytes and arithmetic on f16
  bool neon_i8mm = false;       ///< neon, and int8 and bf16 matrix multiplication (ARMv8.6)
};

/// Queries the CPU; on x86 Linux also requests permission for AMX tile data, once per process.
CpuFeatures detect_cpu();

struct InstructionSet {
  std::string_view name;  ///< value of LACUNA_ISA
  bool CpuFeatures::*is_supported;
  bool CpuFeatures::*is_fast;  ///< whether it is faster than earlier instruction sets, if supported
  const KernelTable& (*table)();
};

/// Returns all instruction sets except `scalar`; each includes the previous ones.
std::span<const InstructionSet> instruction_sets();

}  // namespace lacuna
