#include "bench/gpu/hopper_sum.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace lacuna::cuda {
namespace {

constexpr int kKeptBits = 25;  // below the largest exponent

/// An f32, or a bf16 value as the upper half of an f32.
struct Number {
  double value = 0;
  int exponent = -126;  // of subnormal numbers, too

  explicit Number(uint32_t bits) : value(std::bit_cast<float>(bits)) {
    const int biased = static_cast<int>(bits >> 23 & 0xffU);
    if (biased > 0) exponent = biased - 127;
  }
};

float cut_to_f32(double value) {
  const auto rounded = static_cast<float>(value);
  return std::abs(double{rounded}) > std::abs(value) ? std::nextafter(rounded, 0.0F) : rounded;
}

}  // namespace

float hopper_sum(float c, const uint16_t* a, const uint16_t* b) {
  std::array<double, kProductsAtOnce + 1> terms = {};
  int largest = -1000;
  const auto add = [&](size_t i, double value, int exponent) {
    terms[i] = value;
    if (value != 0) largest = std::max(largest, exponent);
  };
  const Number before(std::bit_cast<uint32_t>(c));
  add(kProductsAtOnce, before.value, before.exponent);
  for (size_t i = 0; i < kProductsAtOnce; ++i) {
    const Number left(uint32_t{a[i]} << 16);
    const Number right(uint32_t{b[i]} << 16);
    add(i, left.value * right.value, left.exponent + right.exponent);  // exact: 16 bits
  }
  const int unit = largest - kKeptBits;
  double sum = 0;  // of integers below 2^32: exact
  for (const double term : terms) sum += std::trunc(std::ldexp(term, -unit));
  return cut_to_f32(std::ldexp(sum, unit));
}

}  // namespace lacuna::cuda
