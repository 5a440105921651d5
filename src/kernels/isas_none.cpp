#include "kernels/isas.h"

namespace lacuna {

std::span<const InstructionSet> instruction_sets() {
  return {};
}

CpuFeatures detect_cpu() {
  return {};
}

}  // namespace lacuna
