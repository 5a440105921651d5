#ifdef __linux__
#include <asm/hwcap.h>
#include <sys/auxv.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif

#include <initializer_list>

#include "kernels/isas.h"
#include "kernels/tables.h"

namespace lacuna {
namespace {

#ifdef __linux__
bool has_neon() {
  constexpr unsigned long kNeeded = HWCAP_ASIMDDP | HWCAP_ASIMDHP | HWCAP_FPHP;
  return (getauxval(AT_HWCAP) & kNeeded) == kNeeded;
}

bool has_i8mm() {
  constexpr unsigned long kNeeded = HWCAP2_BF16 | HWCAP2_I8MM;
  return (getauxval(AT_HWCAP2) & kNeeded) == kNeeded;
}
#elif defined(__APPLE__)
bool has_all(std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    int value = 0;
    size_t size = sizeof value;
    if (sysctlbyname(name, &value, &size, nullptr, 0) != 0 || value == 0) return false;
  }
  return true;
}

bool has_neon() {
  return has_all({"hw.optional.arm.FEAT_DotProd", "hw.optional.arm.FEAT_FP16"});
}

bool has_i8mm() {
  return has_all({"hw.optional.arm.FEAT_BF16", "hw.optional.arm.FEAT_I8MM"});
}
#else
bool has_neon() {
  return false;
}

bool has_i8mm() {
  return false;
}
#endif

constexpr InstructionSet kInstructionSets[] = {
    {"neon", &CpuFeatures::neon, &CpuFeatures::neon, neon_table},
    {"neon-i8mm", &CpuFeatures::neon_i8mm, &CpuFeatures::neon_i8mm, neon_i8mm_table}};

}  // namespace

std::span<const InstructionSet> instruction_sets() {
  return kInstructionSets;
}

CpuFeatures detect_cpu() {
  CpuFeatures features;
  features.neon = has_neon();
  features.neon_i8mm = features.neon && has_i8mm();
  return features;
}

}  // namespace lacuna
