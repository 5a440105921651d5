// Copies between host vectors and device buffers, and random data, for benchmarks and tests of kernels. nvcc
// compiles this header too.
#pragma once

#include <algorithm>
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

/// Uniform in [-scale, scale].
inline std::vector<float> random_numbers(size_t count, uint64_t seed, float scale = 1) {
  const RngStream random(seed);
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = scale * static_cast<float>(2 * random.uniform(i) - 1);
  return values;
}

/// Bits of the values rounded to bf16.
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

inline std::vector<uint16_t> random_bf16(size_t count, uint64_t seed, float scale = 1) {
  return to_bits(random_numbers(count, seed, scale));
}

inline std::vector<uint8_t> random_bytes(size_t count, uint64_t seed) {
  const RngStream random(seed);
  std::vector<uint8_t> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<uint8_t>(random.bits(i));
  return bytes;
}

/// Random e4m3 values as bytes, without NaNs.
inline std::vector<uint8_t> random_e4m3(size_t count, uint64_t seed) {
  std::vector<uint8_t> codes = random_bytes(count, seed);
  for (uint8_t& code : codes) code = static_cast<uint8_t>((code & 0x7f) == 0x7f ? code - 1 : code);
  return codes;
}

inline constexpr size_t kPatternNumbers = size_t{1} << 20;

/// A buffer filled with a repeated pattern, faster than sampling gigabytes. Zeros would let tensor cores run
/// faster than real weights do.
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

}  // namespace lacuna::cuda
