// Memory that is sized once and used many times.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>

namespace lacuna {

/// A zeroed array aligned to cache lines. reserve() grows it and never shrinks it; growing loses the
/// contents.
template <typename T>
class Buffer {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  Buffer() = default;
  explicit Buffer(int64_t count) { reserve(count); }

  void reserve(int64_t count) {
    if (count <= size_) return;
    data_.reset();  // before allocating again, so that two copies never live side by side
    size_ = 0;
    data_.reset(new (std::align_val_t{kAlignment}) T[static_cast<size_t>(count)]());
    size_ = count;
  }

  T* data() const { return data_.get(); }
  int64_t size() const { return size_; }

 private:
  static constexpr size_t kAlignment = 64;
  struct Free {
    void operator()(T* memory) const { ::operator delete[](memory, std::align_val_t{kAlignment}); }
  };

  std::unique_ptr<T[], Free> data_;
  int64_t size_ = 0;
};

}  // namespace lacuna
