// The instruction sets of the architecture that a build is for: isas_x86.cpp, isas_arm.cpp or isas_none.cpp,
// of which cmake/lacuna.cmake takes one.
#pragma once

#include <span>
#include <string_view>

#include "kernels/dispatch.h"
#include "kernels/table.h"

namespace lacuna {

struct InstructionSet {
  std::string_view name;  ///< as LACUNA_ISA gives it
  bool CpuFeatures::*is_supported;
  const KernelTable& (*table)();
};

/// Returns those beyond `scalar`, each wider than the ones before.
std::span<const InstructionSet> instruction_sets();

}  // namespace lacuna
