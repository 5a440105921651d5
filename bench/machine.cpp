#include "bench/machine.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include <algorithm>
#include <array>
#include <fstream>
#include <vector>

#if defined(__APPLE__) || defined(__FreeBSD__)
#include <sys/sysctl.h>
#endif

#include "bench/timing.h"

namespace lacuna {
namespace {

// Enough independent accumulators to hide the latency of a multiply-add (4 cycles, two per cycle, on ARM up
// to four). The compiler must not know that all have the same value, or it would merge them into one chain.
#if defined(__aarch64__)
constexpr int kSums = 20;
#else
constexpr int kSums = 10;
#endif

/// Returns the total of the accumulators, so that the compiler keeps the work.
using Probe = float (*)(int64_t rounds);

float probe_scalar(int64_t rounds) {
  float sums[kSums] = {};
  const volatile float one = 1;
  const float factor = one;
#if defined(__x86_64__)
  for (float& sum : sums) asm volatile("" : "+x"(sum));
#elif defined(__aarch64__)
  for (float& sum : sums) asm volatile("" : "+w"(sum));
#endif
  for (int64_t i = 0; i < rounds; ++i) {
    for (float& sum : sums) sum = factor * factor + sum;
    asm volatile("" ::: "memory");
  }
  return sums[0] + sums[kSums - 1];
}

/// A probe, and the floating-point operations of one of its rounds.
struct PeakProbe {
  Probe run;
  double flops_per_round;
};

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) float probe_avx2(int64_t rounds) {
  __m256 sums[kSums] = {};
  __m256 factor = _mm256_set1_ps(1);
  for (__m256& sum : sums) asm volatile("" : "+x"(sum));
  for (int64_t i = 0; i < rounds; ++i) {
    asm volatile("" : "+x"(factor));  // otherwise the compiler may multiply once for all rounds
    for (__m256& sum : sums) sum = _mm256_fmadd_ps(factor, factor, sum);
  }
  __m256 total = sums[0];
  for (int s = 1; s < kSums; ++s) total = _mm256_add_ps(total, sums[s]);
  return _mm256_cvtss_f32(total);
}

__attribute__((target("avx512f"))) float probe_avx512(int64_t rounds) {
  __m512 sums[kSums] = {};
  __m512 factor = _mm512_set1_ps(1);
  for (__m512& sum : sums) asm volatile("" : "+v"(sum));
  for (int64_t i = 0; i < rounds; ++i) {
    asm volatile("" : "+v"(factor));
    for (__m512& sum : sums) sum = _mm512_fmadd_ps(factor, factor, sum);
  }
  __m512 total = sums[0];
  for (int s = 1; s < kSums; ++s) total = _mm512_add_ps(total, sums[s]);
  return _mm512_cvtss_f32(total);
}

__attribute__((target("avx512f,avx512bf16"))) float probe_avx512_bf16(int64_t rounds) {
  __m512 sums[kSums] = {};
  __m512i factor = _mm512_set1_epi32(0x3f803f80);
  for (__m512& sum : sums) asm volatile("" : "+v"(sum));
  for (int64_t i = 0; i < rounds; ++i) {
    asm volatile("" : "+v"(factor));
    for (__m512& sum : sums) sum = _mm512_dpbf16_ps(sum, (__m512bh)factor, (__m512bh)factor);
  }
  __m512 total = sums[0];
  for (int s = 1; s < kSums; ++s) total = _mm512_add_ps(total, sums[s]);
  return _mm512_cvtss_f32(total);
}

__attribute__((target("amx-tile,amx-bf16"))) float probe_amx_bf16(int64_t rounds) {
  struct alignas(64) {
    uint8_t palette = 1;
    uint8_t reserved[15] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16};
  } config;
  asm volatile("ldtilecfg %0" : : "m"(config));
  for (int64_t i = 0; i < rounds; ++i) {
    _tile_dpbf16ps(0, 4, 5);
    _tile_dpbf16ps(1, 4, 5);
    _tile_dpbf16ps(2, 4, 5);
    _tile_dpbf16ps(3, 4, 5);
  }
  _tile_release();
  return 0;
}

PeakProbe probe_for(std::string_view isa, DType dtype) {
  const bool is_bf16 = dtype == DType::kBF16;
  if (isa == "amx" && is_bf16) return {probe_amx_bf16, 4.0 * 2 * 16 * 16 * 32};
  if (isa == "avx512" && is_bf16) return {probe_avx512_bf16, 2.0 * 32 * kSums};
  if (isa == "amx" || isa.starts_with("avx512")) return {probe_avx512, 2.0 * 16 * kSums};
  if (isa == "avx2") return {probe_avx2, 2.0 * 8 * kSums};
  return {probe_scalar, 2.0 * kSums};
}
#elif defined(__aarch64__)
float probe_neon(int64_t rounds) {
  float32x4_t sums[kSums] = {};
  float32x4_t factor = vdupq_n_f32(1);
  for (float32x4_t& sum : sums) asm volatile("" : "+w"(sum));
  for (int64_t i = 0; i < rounds; ++i) {
    asm volatile("" : "+w"(factor));
    for (float32x4_t& sum : sums) sum = vfmaq_f32(sum, factor, factor);
  }
  float32x4_t total = sums[0];
  for (int s = 1; s < kSums; ++s) total = vaddq_f32(total, sums[s]);
  return vaddvq_f32(total);
}

/// Probe of BFMMLA, written as assembly because the file is compiled for the 64-bit ARM baseline.
float probe_neon_bf16(int64_t rounds) {
  float32x4_t sums[kSums] = {};
  uint16x8_t factor = vdupq_n_u16(0x3f80);
  for (int64_t i = 0; i < rounds; ++i) {
    for (float32x4_t& sum : sums)
      asm volatile(".arch_extension bf16\n\tbfmmla %0.4s, %1.8h, %1.8h" : "+w"(sum) : "w"(factor));
  }
  float32x4_t total = sums[0];
  for (int s = 1; s < kSums; ++s) total = vaddq_f32(total, sums[s]);
  return vaddvq_f32(total);
}

PeakProbe probe_for(std::string_view isa, DType dtype) {
  if (isa == "neon-i8mm" && dtype == DType::kBF16) return {probe_neon_bf16, 2.0 * 16 * kSums};
  if (isa != "scalar") return {probe_neon, 2.0 * 4 * kSums};
  return {probe_scalar, 2.0 * kSums};
}
#else
PeakProbe probe_for(std::string_view /*isa*/, DType /*dtype*/) {
  return {probe_scalar, 2.0 * kSums};
}
#endif

/// Seconds of each of `tries` runs of `work`, after one to warm up.
template <typename Work>
std::vector<double> seconds_of_tries(int tries, Work&& work) {
  work();
  std::vector<double> seconds(static_cast<size_t>(tries));
  for (double& each : seconds) each = seconds_of(work);
  return seconds;
}

/// Other processes disturb some of the tries, which makes them slower.
double fastest(const std::vector<double>& seconds) {
  return *std::min_element(seconds.begin(), seconds.end());
}

constexpr int64_t kRounds = 50'000;  // rounds of one task; a try takes about a millisecond

int64_t num_flop_tasks(const ThreadPool& threads) {
  return 8 * static_cast<int64_t>(threads.size());
}

std::vector<double> time_flops(ThreadPool& threads, const PeakProbe& probe, int tries) {
  volatile float sink = 0;
  return seconds_of_tries(tries, [&] {
    threads.parallel_for(num_flop_tasks(threads), [&](int64_t, int thread) {
      const float total = probe.run(kRounds);
      if (thread == 0) sink = total;
    });
  });
}

double flops_of_try(const ThreadPool& threads, const PeakProbe& probe) {
  return static_cast<double>(num_flop_tasks(threads) * kRounds) * probe.flops_per_round;
}

/// Each thread reads two streams: on an AMD EPYC (Zen 3) that is 1.2 times as fast as one.
std::vector<double> time_reading(ThreadPool& threads, const Buffer<std::byte>& memory, int tries) {
  constexpr int64_t kTaskBytes = int64_t{1} << 22;
  constexpr int64_t kLine = 64;
  using Words [[gnu::vector_size(16), gnu::may_alias]] = int;
  volatile int sink = 0;
  return seconds_of_tries(tries, [&] {
    threads.parallel_for(memory.size() / kTaskBytes, [&](int64_t task, int thread) {
      const std::byte* const begin = memory.data() + task * kTaskBytes;
      Words sums[2][4] = {};
      for (int64_t offset = 0; offset < kTaskBytes / 2; offset += kLine) {
        for (int stream = 0; stream < 2; ++stream) {
          const auto* line = reinterpret_cast<const Words*>(begin + stream * (kTaskBytes / 2) + offset);
          for (int i = 0; i < 4; ++i) sums[stream][i] += line[i];
        }
      }
      Words total = {};
      for (const auto& of_stream : sums) {
        for (const Words& sum : of_stream) total += sum;
      }
      if (thread == 0) sink = total[0];
    });
  });
}

}  // namespace

std::string processor_name() {
#if defined(__APPLE__) || defined(__FreeBSD__)
#ifdef __APPLE__
  constexpr const char* kName = "machdep.cpu.brand_string";
#else
  constexpr const char* kName = "hw.model";
#endif
  std::array<char, 256> name = {};
  size_t size = name.size() - 1;
  return ::sysctlbyname(kName, name.data(), &size, nullptr, 0) == 0 ? name.data() : "unknown";
#else
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name") && line.find(": ") != std::string::npos) {
      return line.substr(line.find(": ") + 2);
    }
  }
  return "unknown";
#endif
}

double measure_peak_flops(ThreadPool& threads, std::string_view isa, DType dtype, int tries) {
  const PeakProbe probe = probe_for(isa, dtype);
  return flops_of_try(threads, probe) / fastest(time_flops(threads, probe, tries));
}

double measure_read_bandwidth(ThreadPool& threads, int64_t bytes) {
  const Buffer<std::byte> memory(bytes);
  return static_cast<double>(bytes) / fastest(time_reading(threads, memory, 6));
}

CurrentPeaks::CurrentPeaks(ThreadPool& threads, std::string_view isa, DType dtype, int64_t bytes)
    : threads_(threads), isa_(isa), dtype_(dtype), memory_(bytes) {}

Roofline CurrentPeaks::measure() const {
  const PeakProbe probe = probe_for(isa_, dtype_);
  return {flops_of_try(threads_, probe) / median(time_flops(threads_, probe, 21)),
          static_cast<double>(memory_.size()) / median(time_reading(threads_, memory_, 3))};
}

}  // namespace lacuna
