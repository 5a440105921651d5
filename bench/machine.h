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

  /// Seconds of work that is bound by the slower of computing and reading, the other being hidden behind it.
  double seconds(double work_flops, double work_bytes) const {
    return std::max(work_flops / flops, work_bytes / bandwidth);
  }
};

/// FLOP/s of all threads doing nothing but the multiply-add by which the kernel table `isa` multiplies
/// `dtype`.
///   tries  the fastest of this many counts
double measure_peak_flops(ThreadPool& threads, std::string_view isa, DType dtype, int tries = 20);

/// Bytes per second of all threads that read this many bytes once: more than any cache holds.
double measure_read_bandwidth(ThreadPool& threads, int64_t bytes = int64_t{1} << 30);

/// The same two peaks at a moment: medians of their tries rather than the fastest. A machine that others
/// share changes its speed by the second, so work is compared with the peaks of the moment before it.
class CurrentPeaks {
 public:
  /// \param threads used until the object is destroyed
  /// \param bytes   that are read in each try
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
