#include "kernels/dispatch.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>

#include "base/error.h"
#include "kernels/tables.h"

namespace lacuna {
namespace {

bool system_grants_amx() {
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

/// AMX with bf16 and int8, and AVX512-FP16, which every CPU with AMX has.
bool cpu_has_amx() {
  // Leaf 7: EDX bit 22 is AMX-BF16, bit 23 AVX512-FP16, bit 24 AMX-TILE, bit 25 AMX-INT8. g++ 12 knows no
  // names for them.
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  return (edx >> 22 & 15U) == 15U;
}

bool cpu_has_f16c() {
  // Leaf 1: ECX bit 29. clang 14 knows no name for it.
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & (1U << 29)) != 0;
}

struct Choice {
  std::string_view name;
  bool supported;
  const KernelTable& (*table)();
};

std::vector<Choice> choices(const CpuFeatures& features) {
  return {{"scalar", true, scalar_table},
          {"avx2", features.avx2, avx2_table},
          {"avx512", features.avx512, avx512_table},
          {"amx", features.amx, amx_table}};
}

}  // namespace

CpuFeatures detect_cpu() {
  __builtin_cpu_init();
  CpuFeatures features;
  features.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && cpu_has_f16c();
  features.avx512 = features.avx2 && __builtin_cpu_supports("avx512f") &&
                    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bf16") &&
                    __builtin_cpu_supports("avx512vnni");
  static const bool amx = cpu_has_amx() && system_grants_amx();
  features.amx = features.avx512 && amx;
  return features;
}

KernelTable choose_table(const CpuFeatures& features, std::string_view wanted) {
  const std::vector<Choice> all = choices(features);
  if (wanted.empty()) {
    KernelTable widest = scalar_table();
    for (const Choice& choice : all) {
      if (choice.supported) widest = choice.table();
    }
    return widest;
  }
  for (const Choice& choice : all) {
    if (choice.name != wanted) continue;
    if (!choice.supported) throw InputError("LACUNA_ISA is '{}', which this CPU cannot run", wanted);
    return choice.table();
  }
  throw InputError("LACUNA_ISA is '{}'; expected scalar, avx2, avx512 or amx", wanted);
}

std::vector<KernelTable> supported_tables() {
  std::vector<KernelTable> tables;
  for (const Choice& choice : choices(detect_cpu())) {
    if (choice.supported) tables.push_back(choice.table());
  }
  return tables;
}

const KernelTable& default_table() {
  static const KernelTable table = [] {
    const char* wanted = std::getenv("LACUNA_ISA");
    return choose_table(detect_cpu(), wanted == nullptr ? "" : wanted);
  }();
  return table;
}

}  // namespace lacuna
