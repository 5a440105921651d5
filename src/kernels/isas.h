// CPU detection, and the instruction sets of the architecture that a build is for: isas_x86.cpp, isas_arm.cpp
// or isas_none.cpp, of which cmake/lacuna.cmake takes one.
#pragma once

#include <span>
#include <string_view>

#include "kernels/table.h"

namespace lacuna {

/// Instruction sets that the CPU has and the system lets programs use: those of x86 or those of ARM.
struct CpuFeatures {
  bool avx2 = false;            ///< with FMA and F16C
  bool avx512_fma = false;      ///< AVX-512 F, BW, DQ, VL and VNNI
  bool avx512 = false;          ///< and BF16
  bool fast_bf16_dots = false;  ///< BF16's dot products of pairs are faster than two FMAs: not Intel's
  bool amx = false;             ///< TILE, BF16 and INT8, with the system's permission to use tile data
  bool neon = false;            ///< ARMv8.2 with dot products of bytes and arithmetic on f16
  bool neon_i8mm = false;       ///< and matrix products of bytes and of bf16 (ARMv8.6)
};

/// Asks the CPU; on Linux and x86 also asks the system for AMX tile data, once per process.
CpuFeatures detect_cpu();

struct InstructionSet {
  std::string_view name;  ///< as LACUNA_ISA gives it
  bool CpuFeatures::*is_supported;
  bool CpuFeatures::*is_fast;  ///< where it is supported: faster than those before
  const KernelTable& (*table)();
};

/// Returns those beyond `scalar`, each with the instructions of the ones before.
std::span<const InstructionSet> instruction_sets();

}  // namespace lacuna
