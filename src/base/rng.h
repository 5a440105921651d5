// Counter-based random numbers: a number depends on its coordinates (seed, purpose, position, step, index),
// never on earlier numbers. A request therefore samples the same numbers in any batch and on any thread.
#pragma once

#include <cstdint>

namespace lacuna {

/// The finaliser of SplitMix64 (Steele, Lea and Flood 2014): a bijection whose output bits look independent.
constexpr uint64_t mix_bits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

class RngStream {
 public:
  template <typename... Coordinates>
  explicit constexpr RngStream(uint64_t seed, Coordinates... coordinates) : key_(next_key(0, seed)) {
    ((key_ = next_key(key_, static_cast<uint64_t>(coordinates))), ...);
  }

  constexpr bool operator==(const RngStream&) const = default;

  /// The key determines all numbers of the stream; from_key() restores the stream.
  constexpr uint64_t key() const { return key_; }
  static constexpr RngStream from_key(uint64_t key) {
    RngStream stream(0);
    stream.key_ = key;
    return stream;
  }

  /// 64 random bits; the same for the same coordinates and index.
  constexpr uint64_t bits(uint64_t index) const { return mix_bits(key_ + (index + 1) * kGolden); }

  /// Uniform in the open interval (0, 1), 52 bits.
  constexpr double uniform(uint64_t index) const {
    return (static_cast<double>(bits(index) >> 12) + 0.5) * 0x1p-52;
  }

  /// Uniform in [0, count), count >= 1; the bias of the multiplication is below count / 2^32.
  constexpr uint32_t below(uint64_t index, uint32_t count) const {
    return static_cast<uint32_t>(((bits(index) >> 32) * count) >> 32);
  }

 private:
  static constexpr uint64_t kGolden = 0x9e3779b97f4a7c15ULL;
  static constexpr uint64_t next_key(uint64_t key, uint64_t coordinate) {
    return mix_bits(key * kGolden + mix_bits(coordinate + kGolden));
  }

  uint64_t key_;
};

}  // namespace lacuna
