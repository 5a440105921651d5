// Random numbers on the device, and times of what is sent to it.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "backend/cuda/runtime.h"
#include "base/dtype.h"
#include "base/rng.h"
#include "bench/timing.h"

namespace lacuna::cuda {

template <typename T>
DeviceBuffer to_device(Stream& stream, const std::vector<T>& values) {
  DeviceBuffer buffer(values.size() * sizeof(T));
  stream.copy(buffer.as<T>(), values.data(), buffer.bytes());
  stream.wait();
  return buffer;
}

template <typename T>
std::vector<T> to_host(Stream& stream, const DeviceBuffer& buffer) {
  std::vector<T> values(buffer.bytes() / sizeof(T));
  stream.copy(values.data(), buffer.as<T>(), buffer.bytes());
  stream.wait();
  return values;
}

/// Uniform in [-scale, scale].
inline std::vector<float> random_floats(int64_t count, uint64_t seed, float scale = 1) {
  const RngStream random(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = scale * static_cast<float>(2 * random.uniform(i) - 1);
  return values;
}

inline std::vector<uint16_t> random_bf16(int64_t count, uint64_t seed, float scale = 1) {
  std::vector<uint16_t> bits;
  bits.reserve(static_cast<size_t>(count));
  for (const float value : random_floats(count, seed, scale)) bits.push_back(bf16(value).bits);
  return bits;
}

inline std::vector<uint8_t> random_bytes(int64_t count, uint64_t seed) {
  const RngStream random(seed);
  std::vector<uint8_t> bytes(static_cast<size_t>(count));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(random.bits(i));
  return bytes;
}

/// A buffer full of a pattern, which is repeated: gigabytes of numbers that took no time to draw. Zeros would
/// let tensor cores run faster than on a model's numbers.
template <typename T>
DeviceBuffer repeated(Stream& stream, int64_t bytes, const std::vector<T>& pattern) {
  DeviceBuffer buffer(static_cast<size_t>(bytes));
  const size_t size = pattern.size() * sizeof(T);
  for (size_t at = 0; at < buffer.bytes(); at += size) {
    stream.copy(buffer.as<uint8_t>() + at, pattern.data(), std::min(size, buffer.bytes() - at));
  }
  stream.wait();
  return buffer;
}

inline constexpr int64_t kPatternNumbers = int64_t{1} << 20;

/// Seconds of one call: `count` of them are recorded as a graph, which is launched once to warm up and then
/// `repeat` times; the median of the launches counts.
///   send  sends call i to the stream
inline double seconds_of_call(Stream& stream, int count, int repeat, const std::function<void(int i)>& send) {
  stream.begin_capture();
  for (int i = 0; i < count; ++i) send(i);
  const Graph graph = stream.end_capture();
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

/// How many copies of something a timed call rotates over.
inline int num_copies(int64_t bytes, int64_t rotate_bytes) {
  return static_cast<int>(std::clamp<int64_t>((rotate_bytes + bytes - 1) / bytes, 2, 64));
}

}  // namespace lacuna::cuda
