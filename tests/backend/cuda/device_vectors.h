// Vectors on the host and buffers on the device, and numbers of bf16, for tests of kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cuda/runtime.h"
#include "base/dtype.h"
#include "base/rng.h"

namespace lacuna::cuda {

template <typename T>
DeviceBuffer upload(Stream& stream, const std::vector<T>& values) {
  DeviceBuffer buffer(values.size() * sizeof(T));
  stream.copy(buffer.as<T>(), values.data(), values.size() * sizeof(T));
  stream.wait();
  return buffer;
}

template <typename T>
std::vector<T> download(Stream& stream, const DeviceBuffer& buffer) {
  std::vector<T> values(buffer.bytes() / sizeof(T));
  stream.copy(values.data(), buffer.as<T>(), buffer.bytes());
  stream.wait();
  return values;
}

inline std::vector<float> random_numbers(size_t count, uint64_t seed, float scale = 1) {
  const RngStream random(seed);
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = scale * static_cast<float>(2 * random.uniform(i) - 1);
  return values;
}

inline std::vector<uint16_t> to_bits(const std::vector<float>& values) {
  std::vector<uint16_t> bits;
  bits.reserve(values.size());
  for (const float value : values) bits.push_back(bf16(value).bits);
  return bits;
}

inline float from_bits(uint16_t bits) {
  bf16 value;
  value.bits = bits;
  return static_cast<float>(value);
}

inline constexpr uint16_t kNaNBits = 0xffff;

}  // namespace lacuna::cuda
