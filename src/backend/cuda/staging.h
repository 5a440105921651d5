// Uploads the arrays of a pass: they are concatenated in pinned host memory and copied to the device at once.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "backend/cuda/device.h"
#include "backend/cuda/runtime.h"

namespace lacuna::cuda {

/// Number of reallocations by grow(). While it is unchanged, all buffers keep their addresses.
inline std::atomic<uint64_t> num_moves = 0;

/// Grows a device buffer to at least `bytes`, by at least a quarter, so that slowly growing passes seldom
/// reallocate. Loses the contents. Waits for work that may still use the buffer.
inline void grow(Stream& stream, DeviceBuffer& buffer, int64_t bytes) {
  if (static_cast<int64_t>(buffer.bytes()) >= bytes) return;
  const size_t larger = std::max(static_cast<size_t>(bytes), buffer.bytes() + buffer.bytes() / 4);
  stream.wait();
  ++num_moves;
  buffer = {};
  buffer = DeviceBuffer(larger);
}

/// Byte offset of an array in a Staging.
template <typename T>
struct Staged {
  size_t offset = 0;
};

/// Arrays to upload. clear() and add() are allowed only after the last copy has run.
class Staging {
 public:
  void clear() { used_ = 0; }

  template <typename T>
  Staged<T> add(std::span<const T> values) {
    const size_t offset = reserve(values.size_bytes());
    if (!values.empty()) std::memcpy(host_.as<std::byte>() + offset, values.data(), values.size_bytes());
    return {offset};
  }
  template <typename T>
  Staged<T> add(const std::vector<T>& values) {
    return add(std::span<const T>(values));
  }

  /// Sends all arrays with one copy; at() is valid from now on.
  void send(Stream& stream) {
    if (device_.bytes() < used_) grow(stream, device_, static_cast<int64_t>(host_.bytes()));
    stream.copy(device_.as<std::byte>(), host_.as<std::byte>(), used_);
  }
  template <typename T>
  const T* at(Staged<T> array) const {
    return reinterpret_cast<const T*>(device_.as<std::byte>() + array.offset);
  }

  size_t bytes() const { return used_; }

 private:
  /// Returns the offset of a new array, a multiple of 16.
  size_t reserve(size_t bytes) {
    const size_t begin = used_;
    used_ += (bytes + 15) / 16 * 16;
    if (used_ <= host_.bytes()) return begin;
    HostBuffer larger(2 * used_);
    if (begin > 0) std::memcpy(larger.as<std::byte>(), host_.as<std::byte>(), begin);
    host_ = std::move(larger);
    return begin;
  }

  HostBuffer host_;
  DeviceBuffer device_;
  size_t used_ = 0;
};

}  // namespace lacuna::cuda
