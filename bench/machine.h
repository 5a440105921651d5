// What this machine can do at most, measured: the roof that timings are compared with.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "base/threads.h"

namespace lacuna {

/// The processor's name for itself, or "unknown".
std::string processor_name();

/// FLOP/s of all threads doing nothing but the multiply-add by which the kernel table `isa` multiplies
/// `dtype`.
///   tries  the fastest of so many counts
double measure_peak_flops(ThreadPool& threads, std::string_view isa, DType dtype, int tries = 20);

/// Bytes per second of all threads reading so much once: more than any cache holds.
double measure_read_bandwidth(ThreadPool& threads, int64_t bytes = int64_t{1} << 30);

}  // namespace lacuna
