// Timing of calls on a device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "backend/cuda/runtime.h"
#include "bench/timing.h"

namespace lacuna::cuda {

/// Seconds of one call: `count` calls are recorded as a graph, which is launched once to warm up and then
/// `repeat` times; the median launch counts.
///   send  sends call i to the stream
inline double seconds_of_call(Stream& stream, int count, int repeat, const std::function<void(int i)>& send) {
  const Graph graph = record_graph(stream, [&] {
    for (int i = 0; i < count; ++i) send(i);
  });
  std::vector<double> seconds;
  for (int i = 0; i <= repeat; ++i) {
    Event begin;
    Event end;
    stream.record(begin);
    stream.launch(graph);
    stream.record(end);
    stream.wait();
    if (i > 0) seconds.push_back(seconds_between(begin, end) / count);
  }
  return median(seconds);
}

/// Number of copies, 2 to 64, with which timed calls rotate over `rotate_bytes` of memory.
inline int num_copies(int64_t bytes, int64_t rotate_bytes) {
  return static_cast<int>(std::clamp<int64_t>((rotate_bytes + bytes - 1) / bytes, 2, 64));
}

}  // namespace lacuna::cuda
