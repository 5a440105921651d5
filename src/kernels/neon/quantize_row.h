// Quantizes rows to bytes, for int8 and int16 activations (KernelTable). Each four values are in the order 0,
// 2, 1, 3, as in weights.
#pragma once

#include <arm_neon.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "kernels/generic/int8_activations.h"
#include "kernels/neon/vectors.h"
#include "kernels/table.h"

namespace lacuna {
namespace {  // NOLINT: as in avx512/vectors.h

/// A quantized row is followed by the sums of every 16 integers, if its memory has room; the int16 values of
/// a bf16 row leave none.
inline constexpr int64_t kInputsOfSum = 16;

/// Four values of a packed row, which holds bf16 or floats.
inline float32x4_t load_four(const float* from) {
  return vld1q_f32(from);
}
inline float32x4_t load_four(const bf16* from) {
  return vreinterpretq_f32_u32(vshll_n_u16(load_as<uint16x4_t>(from), 16));
}

/// Largest magnitude of `count` values, a multiple of 4; infinity or NaN if one of them is.
template <typename Element>
float max_magnitude(const Element* x, int64_t count) {
  uint32x4_t largest = vdupq_n_u32(0);
  for (int64_t i = 0; i < count; i += 4) {
    const uint32x4_t bits = vreinterpretq_u32_f32(load_four(x + i));
    largest = vmaxq_u32(largest, vandq_u32(bits, vdupq_n_u32(0x7fffffffU)));
  }
  return std::bit_cast<float>(vmaxvq_u32(largest));
}

/// Sixteen values times `inverse`, rounded to nearest even; NaN becomes 0.
struct Sixteen {
  int16x8_t lower, upper;

  template <typename Element>
  static Sixteen quantize(const Element* x, float inverse) {
    const auto four = [&](int64_t i) {
      return vqmovn_s32(vcvtnq_s32_f32(vmulq_n_f32(load_four(x + i), inverse)));
    };
    return {vcombine_s16(four(0), four(4)), vcombine_s16(four(8), four(12))};
  }
  int64_t sum() const { return int64_t{vaddlvq_s16(lower)} + vaddlvq_s16(upper); }
};

inline int8x16_t in_order_of_weights(int8x16_t bytes) {
  static constexpr uint8_t kOrder[] = {0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15};
  return vqtbl1q_s8(bytes, vld1q_u8(kOrder));
}

template <typename Element>
float quantize_row_to_int8(const void* packed, const RowStrides& /*strides*/, int64_t padded_count, void* out,
                           float* scales) {
  const auto* const x = static_cast<const Element*>(packed);
  auto* const numbers = static_cast<int8_t*>(out);
  auto* const sums = reinterpret_cast<int32_t*>(numbers + padded_count);
  double sum = 0;
  for (int64_t begin = 0; begin < padded_count; begin += generic::kInt8Group) {
    const int64_t end = std::min(begin + generic::kInt8Group, padded_count);
    const generic::IntegerScale scale = generic::int8_scale(max_magnitude(x + begin, end - begin));
    int64_t group_sum = 0;
    for (int64_t i = begin; i < end; i += kInputsOfSum) {
      const Sixteen integers = Sixteen::quantize(x + i, scale.inverse);
      const int8x16_t bytes = vcombine_s8(vqmovn_s16(integers.lower), vqmovn_s16(integers.upper));
      vst1q_s8(numbers + i, in_order_of_weights(bytes));
      const int64_t of_sixteen = integers.sum();
      sums[i / kInputsOfSum] = static_cast<int32_t>(of_sixteen);
      group_sum += of_sixteen;
    }
    scales[begin / generic::kInt8Group] = scale.scale;
    sum += double{scale.scale} * static_cast<double>(group_sum);
  }
  return static_cast<float>(sum);
}

/// Each integer is 256 * high + low, both signed bytes. Eight inputs are stored as eight high bytes, then
/// eight low bytes.
template <typename Element>
float quantize_row_to_int16(const void* packed, const RowStrides& /*strides*/, int64_t padded_count,
                            void* out, float* scales) {
  constexpr bool kHasSums = sizeof(Element) == sizeof(float);
  const auto* const x = static_cast<const Element*>(packed);
  const int exponent = std::bit_cast<int>(max_magnitude(x, padded_count)) >> 23;
  if (exponent == generic::kNonFiniteExponent) {
    std::memset(out, 0, static_cast<size_t>(padded_count) * sizeof(Element));
    return *scales = generic::kNaN;
  }
  const generic::IntegerScale scale = generic::int16_scale(exponent);
  auto* const parts = static_cast<int8_t*>(out);
  auto* const sums = reinterpret_cast<int32_t*>(parts + 2 * padded_count);
  const auto store_parts = [](int16x8_t integers, int8_t* to) {
    const int8x8_t high = vqrshrn_n_s16(integers, 8);  // rounded up where the low byte is negative
    vst1q_s8(to, in_order_of_weights(vcombine_s8(high, vmovn_s16(integers))));
  };
  int64_t sum = 0;
  for (int64_t i = 0; i < padded_count; i += kInputsOfSum) {
    Sixteen integers = Sixteen::quantize(x + i, scale.inverse);
    integers.lower = vminq_s16(integers.lower, vdupq_n_s16(generic::kMaxInt16));
    integers.upper = vminq_s16(integers.upper, vdupq_n_s16(generic::kMaxInt16));
    store_parts(integers.lower, parts + 2 * i);
    store_parts(integers.upper, parts + 2 * i + 16);
    const int64_t of_sixteen = integers.sum();
    if constexpr (kHasSums) sums[i / kInputsOfSum] = static_cast<int32_t>(of_sixteen);
    sum += of_sixteen;
  }
  *scales = scale.scale;
  return scale.scale * static_cast<float>(sum);
}

}  // namespace
}  // namespace lacuna
