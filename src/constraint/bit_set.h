// Sets of small integers: states of an automaton, classes of tokens.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lacuna {

/// A subset of 0, 1, ..., size() - 1. Both operands of an operation must have the same size.
class BitSet {
 public:
  BitSet() = default;
  explicit BitSet(size_t size) : size_(size), words_((size + 63) / 64) {}

  size_t size() const { return size_; }
  bool contains(size_t element) const { return (words_[element / 64] >> (element % 64) & 1) != 0; }
  void insert(size_t element) { words_[element / 64] |= uint64_t{1} << (element % 64); }
  void erase(size_t element) { words_[element / 64] &= ~(uint64_t{1} << (element % 64)); }
  void clear() { words_.assign(words_.size(), 0); }

  bool operator==(const BitSet&) const = default;

  bool is_empty() const {
    for (const uint64_t word : words_) {
      if (word != 0) return false;
    }
    return true;
  }

  size_t count() const {
    size_t count = 0;
    for (const uint64_t word : words_) count += static_cast<size_t>(std::popcount(word));
    return count;
  }

  bool intersects(const BitSet& other) const {
    for (size_t i = 0; i < words_.size(); ++i) {
      if ((words_[i] & other.words_[i]) != 0) return true;
    }
    return false;
  }

  BitSet& operator&=(const BitSet& other) {
    for (size_t i = 0; i < words_.size(); ++i) words_[i] &= other.words_[i];
    return *this;
  }

  BitSet& operator|=(const BitSet& other) {
    for (size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
    return *this;
  }

  /// Calls `visit(element)` in ascending order.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (size_t i = 0; i < words_.size(); ++i) {
      for (uint64_t word = words_[i]; word != 0; word &= word - 1) {
        visit(i * 64 + static_cast<size_t>(std::countr_zero(word)));
      }
    }
  }

 private:
  size_t size_ = 0;
  std::vector<uint64_t> words_;
};

}  // namespace lacuna
