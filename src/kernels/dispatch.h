// The choice of a kernel table.
#pragma once

#include <string_view>
#include <vector>

#include "kernels/isas.h"
#include "kernels/table.h"

namespace lacuna {

/// Returns the widest table that `features` allow, or the one named by `wanted` if that is not empty. Throws
/// InputError, naming LACUNA_ISA, if the name is unknown or the CPU lacks its instructions.
KernelTable choose_table(const CpuFeatures& features, std::string_view wanted);

/// Returns every table that this machine can run, scalar first.
std::vector<KernelTable> supported_tables();

/// Returns the table of this process: the widest, or the one named by the environment variable LACUNA_ISA.
const KernelTable& default_table();

}  // namespace lacuna
