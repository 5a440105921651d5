// The one place that asks about the CPU.
#pragma once

#include <string_view>
#include <vector>

#include "kernels/table.h"

namespace lacuna {

/// What the kernels may use: instructions that the CPU has and the system lets programs use.
struct CpuFeatures {
  bool avx2 = false;    ///< with FMA and F16C
  bool avx512 = false;  ///< F, BW, DQ, VL, BF16 and VNNI
  bool amx = false;     ///< TILE, BF16 and INT8, with the system's permission to use tile data
};

/// Asks the CPU; on Linux also asks the system for AMX tile data, once per process.
CpuFeatures detect_cpu();

/// The widest table that `features` allow, or the one named by `wanted`. An empty name wants the widest.
/// InputError, naming LACUNA_ISA, where the name is unknown or the CPU lacks its instructions.
KernelTable choose_table(const CpuFeatures& features, std::string_view wanted);

/// Every table this machine can run, scalar first.
std::vector<KernelTable> supported_tables();

/// The table of this process: the widest, or what the environment variable LACUNA_ISA names.
const KernelTable& default_table();

}  // namespace lacuna
