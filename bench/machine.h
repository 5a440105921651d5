// What this machine can do at most, measured: the roof that timings are compared with.
#pragma once

#include <string>
#include <string_view>

#include "base/dtype.h"
#include "base/threads.h"

namespace lacuna {

/// The processor's name for itself, or "unknown".
std::string processor_name();

/// FLOP/s of all threads doing nothing but the multiply-add by which the kernel table `isa` multiplies
/// `dtype`.
double measure_peak_flops(ThreadPool& threads, std::string_view isa, DType dtype);

/// Bytes per second of all threads reading 1 GiB once.
double measure_read_bandwidth(ThreadPool& threads);

}  // namespace lacuna
