// Measures the machine's roofline: peak FLOP/s and memory bandwidth.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/buffer.h"
#include "base/dtype.h"
#include "base/threads.h"

namespace lacuna {

/// Name of the processor, or "unknown".
std::string processor_name();

/// The roofline model (Williams et al. 2009) of a machine.
struct Roofline {
  double flops = 0;      ///< per second, of the model's element type
  double bandwidth = 0;  ///< bytes read per second

  /// Seconds of the work if computing and reading overlap: the longer of the two.
  double seconds(double work_flops, double work_bytes) const {
    return std::max(work_flops / flops, work_bytes / bandwidth);
  }
};

/// FLOP/s of all threads running only the multiply-add instruction of kernel table `isa` for `dtype`.
///   tries  number of measurements; the fastest counts
double measure_peak_flops(ThreadPool& threads, std::string_view isa, DType dtype, int tries = 20);

/// Bytes per second of all threads reading `bytes` bytes once; `bytes` must exceed the caches.
double measure_read_bandwidth(ThreadPool& threads, int64_t bytes = int64_t{1} << 30);

/// Measures both peaks repeatedly, as medians of tries instead of the fastest. The speed of a shared machine
/// changes by the second, so each timing is compared with the peaks measured just before it.
class CurrentPeaks {
 public:
  /// \param threads used until the object is destroyed
  /// \param bytes   number of bytes that each try reads
  CurrentPeaks(ThreadPool& threads, std::string_view isa, DType dtype, int64_t bytes = int64_t{1} << 29);

  /// Takes about half a second: several tries, each of which reads `bytes`.
  Roofline measure() const;

 private:
  ThreadPool& threads_;
  std::string isa_;
  DType dtype_;
  Buffer<std::byte> memory_;
};

}  // namespace lacuna
