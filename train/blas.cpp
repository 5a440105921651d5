#include "train/blas.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>

namespace lacuna::train {
namespace {

constexpr const char* kCoreVariable = "OPENBLAS_CORETYPE";
constexpr std::string_view kAvx512Cores[] = {"SkylakeX", "Cooperlake", "Sapphirerapids"};
constexpr std::string_view kAvx2Cores[] = {"Haswell", "Zen"};

template <size_t N>
bool contains(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

}  // namespace

std::optional<std::string> better_blas_core(std::string_view core, bool has_avx2, bool has_avx512) {
  if (contains(kAvx512Cores, core)) return std::nullopt;
  if (has_avx512) return "SKYLAKEX";
  if (contains(kAvx2Cores, core) || !has_avx2) return std::nullopt;
  return "HASWELL";
}

void use_best_blas_kernels(char** argv) {
#ifdef __x86_64__
  if (std::getenv(kCoreVariable)) return;
  const auto core_name = reinterpret_cast<char* (*)()>(dlsym(RTLD_DEFAULT, "openblas_get_corename"));
  if (!core_name) return;  // another BLAS
  const std::string core = core_name();
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  const auto better =
      better_blas_core(core, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"), has_avx512);
  if (!better) return;
  fmt::print(stderr, "OpenBLAS takes this processor for {}: {} is set to {}\n", core, kCoreVariable, *better);
  setenv(kCoreVariable, better->c_str(), 1);
  execv("/proc/self/exe", argv);  // only returns where that fails; the run is slower then
#else
  static_cast<void>(argv);
#endif
}

}  // namespace lacuna::train
