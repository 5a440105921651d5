// Measures the machine's roofline: peak FLOP/s and memory bandwidth.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "base/threads.h"

namespace lacuna {

/// Name of the processor, or "unknown".
std::string processor_name();

/// FLOP/s of all threads doing nothing but the multiply-add by which the kernel table `isa` multiplies
/// `dtype`.
///   tries  the fastest of this many counts
double measure_peak_flops(ThreadPool& threads, std::string_view isa, DType dtype, int tries = 20);

/// Bytes per second of all threads that read this many bytes once: more than any cache holds.
double measure_read_bandwidth(ThreadPool& threads, int64_t bytes = int64_t{1} << 30);

}  // namespace lacuna
