// Aligned memory that is sized once and reused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace lacuna {

/// Allocates at least `bytes` bytes of unspecified content, aligned to cache lines; blocks of 2 MiB or more
/// are aligned to huge pages and use them if the system has any. Throws std::bad_alloc.
std::byte* allocate_aligned(size_t bytes);
void free_aligned(std::byte* memory);

/// A zeroed array aligned to cache lines. reserve() grows it and never shrinks it; growing loses the
/// contents.
template <typename T>
class Buffer {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  Buffer() = default;
  explicit Buffer(int64_t count) { reserve(count); }

  /// An array that is not zeroed, so that its pages are placed by the thread that writes them first.
  static Buffer uninitialized(int64_t count) {
    static_assert(std::is_trivially_default_constructible_v<T>);
    Buffer buffer;
    buffer.allocate(count);
    return buffer;
  }

  void reserve(int64_t count) {
    if (count <= size_) return;
    allocate(count);
    std::uninitialized_value_construct_n(data_.get(), static_cast<size_t>(count));
  }

  T* data() const { return data_.get(); }
  int64_t size() const { return size_; }

 private:
  void allocate(int64_t count) {
    data_.reset();  // before allocating again, so that two copies never exist at once
    size_ = 0;
    const auto elements = static_cast<size_t>(count);
    if (elements > SIZE_MAX / sizeof(T)) throw std::bad_array_new_length();
    data_.reset(reinterpret_cast<T*>(allocate_aligned(elements * sizeof(T))));
    size_ = count;
  }

  struct Free {
    void operator()(T* memory) const { free_aligned(reinterpret_cast<std::byte*>(memory)); }
  };

  std::unique_ptr<T[], Free> data_;
  int64_t size_ = 0;
};

}  // namespace lacuna
