#include <cpuid.h>

#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "kernels/isas.h"
#include "kernels/tables.h"

namespace lacuna {
namespace {

bool system_grants_amx() {
#ifdef __linux__
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
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

constexpr InstructionSet kInstructionSets[] = {
    {"avx2", &CpuFeatures::avx2, &CpuFeatures::avx2, avx2_table},
    {"avx512-fma", &CpuFeatures::avx512_fma, &CpuFeatures::avx512_fma, avx512_fma_table},
    {"avx512", &CpuFeatures::avx512, &CpuFeatures::fast_bf16_dots, avx512_table},
    {"amx", &CpuFeatures::amx, &CpuFeatures::amx, amx_table}};

}  // namespace

std::span<const InstructionSet> instruction_sets() {
  return kInstructionSets;
}

CpuFeatures detect_cpu() {
  __builtin_cpu_init();
  CpuFeatures features;
  features.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && cpu_has_f16c();
  features.avx512_fma = features.avx2 && __builtin_cpu_supports("avx512f") &&
                        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
  features.avx512 = features.avx512_fma && __builtin_cpu_supports("avx512bf16");
  features.fast_bf16_dots = features.avx512 && !__builtin_cpu_is("intel");
  static const bool amx = cpu_has_amx() && system_grants_amx();
  features.amx = features.avx512 && amx;
  return features;
}

}  // namespace lacuna
