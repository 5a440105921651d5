#include <algorithm>

#include "backend/cuda/kernels/probe.h"
#include "bench/gpu/device_timing.h"
#include "bench/gpu/device_vectors.h"
#include "bench/gpu/gpu_check.h"
#include "bench/gpu/library_product.h"

namespace lacuna::cuda {
namespace {

constexpr uint32_t kReadBlocks = 132 * 8;  // blocks of 256 threads that an H200 runs at the same time

void measure_bandwidth(Stream& stream, const CheckSizes& sizes, CheckReport& report) {
  const DeviceBuffer from =
      repeated(stream, sizes.copy_bytes,
               random_bytes(static_cast<size_t>(std::min(sizes.copy_bytes, int64_t{1} << 22)), 1));
  const DeviceBuffer to(from.bytes());
  const double copy = seconds_of_call(
      stream, 2, sizes.repeat, [&](int) { stream.copy(to.as<uint8_t>(), from.as<uint8_t>(), from.bytes()); });
  const ReadArguments arguments{from.as<uint32_t>(), to.as<uint32_t>(), sizes.copy_bytes / 4, 0x12345678U};
  const double read =
      seconds_of_call(stream, 2, sizes.repeat, [&](int) { read_all(stream, arguments, kReadBlocks); });
  const auto bytes = static_cast<double>(sizes.copy_bytes);
  report.copy_bytes_per_second = 2 * bytes / copy;
  report.add("copy", {{"bytes", sizes.copy_bytes}, {"copy_gbs", 2 * bytes / copy / 1e9}});
  report.add("read", {{"bytes", sizes.copy_bytes}, {"read_gbs", bytes / read / 1e9}});
}

void measure_square(Stream& stream, const CheckSizes& sizes, CheckReport& report) {
  const int64_t n = sizes.square;
  const DeviceBuffer x = repeated(stream, 2 * n * n, random_bf16(kPatternNumbers, 2));
  const DeviceBuffer weights = repeated(stream, 2 * n * n, random_bf16(kPatternNumbers, 3));
  const DeviceBuffer out(static_cast<size_t>(2 * n * n));
  const LibraryTime time = time_of_library(
      stream, {n, n, n, x.as<uint16_t>(), {weights.as<uint16_t>()}, out.as<uint16_t>()}, 4, sizes.repeat);
  if (!time.why_not.empty()) {
    report.add("library", {{"missing", time.why_not}});
    return;
  }
  const double flops = 2 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  report.add("library", {{"size", n}, {"bf16_tflops", flops / time.seconds / 1e12}});
}

}  // namespace

void measure_peaks(Stream& stream, const CheckSizes& sizes, CheckReport& report) {
  measure_bandwidth(stream, sizes, report);
  const int launches = 20 * sizes.timed_calls;
  const double gap = seconds_of_call(stream, launches, sizes.repeat, [&](int) { do_nothing(stream); });
  report.add("gap", {{"kernels", launches}, {"gap_us", 1e6 * gap}});
  measure_square(stream, sizes, report);
}

}  // namespace lacuna::cuda
