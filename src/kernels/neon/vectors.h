// Vectors of ARM's Advanced SIMD (NEON), including multiplication of a vector by one element of another.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/panels.h"

namespace lacuna {
// One copy per file, as in avx512/vectors.h.
namespace {  // NOLINT

/// Loads from memory of any type and alignment.
template <typename Vector>
[[gnu::always_inline]] inline Vector load_as(const void* from) {
  Vector x;
  std::memcpy(&x, from, sizeof x);
  return x;
}

struct Neon {
  using Vec = float32x4_t;
  static constexpr int kLanes = 4;
  static constexpr int kTilePanels = 1;
  static constexpr int kTileRows = 6;  // 6 x 4 accumulators, 4 weights and 1 input fill 29 of 32 registers
  static constexpr int kTileRowsOfPairs = 2;  // with more rows, pairs are unpacked first
  static constexpr int kPanelsOfFewRows = 2;  // eight accumulators hide the latency of FMAs
  static constexpr int64_t kBytesAhead = 1024;

  /// An input of a row, loaded into one lane and multiplied from there: a broadcasting load would occupy the
  /// vector pipelines.
  struct Input {
    float value;
  };

  static Vec zero() { return vdupq_n_f32(0); }
  static Vec broadcast(float x) { return vdupq_n_f32(x); }
  static Vec load(const float* p) { return vld1q_f32(p); }
  static void store(float* p, Vec x) { vst1q_f32(p, x); }
  static Vec add(Vec a, Vec b) { return vaddq_f32(a, b); }
  static Vec subtract(Vec a, Vec b) { return vsubq_f32(a, b); }
  static Vec multiply(Vec a, Vec b) { return vmulq_f32(a, b); }
  static Vec divide(Vec a, Vec b) { return vdivq_f32(a, b); }
  static Vec multiply_add(Vec a, Vec b, Vec c) { return vfmaq_f32(c, a, b); }
  /// In assembly, because g++ 12 broadcasts an element that multiplies several vectors.
  [[gnu::always_inline]] static Vec multiply_add(Input x, Vec b, Vec c) {
    asm("fmla %0.4s, %1.4s, %2.s[0]" : "+w"(c) : "w"(b), "w"(x.value));
    return c;
  }
  // Return b if a or b is NaN, unlike vmaxq_f32 and vminq_f32.
  static Vec max(Vec a, Vec b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
  static Vec min(Vec a, Vec b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
  static Vec round(Vec x) { return vrndnq_f32(x); }
  static float reduce_add(Vec x) { return vaddvq_f32(x); }
  static float reduce_max(Vec x) { return vmaxnmvq_f32(x); }
  static Vec scale_by_power_of_two(Vec x, Vec n) {
    const int32x4_t exponent = vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127));
    return vmulq_f32(x, vreinterpretq_f32_s32(vshlq_n_s32(exponent, 23)));
  }
  static Vec zero_where_less(Vec x, Vec a, Vec b) {
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(x), vcltq_f32(a, b)));
  }
  static Vec replace_where_greater(Vec x, Vec replacement, const int32_t* keys, int32_t bound) {
    return vbslq_f32(vcgtq_s32(vld1q_s32(keys), vdupq_n_s32(bound)), replacement, x);
  }
  static Vec round_to_bf16(Vec x) {
    const uint32x4_t word = vreinterpretq_u32_f32(x);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(word, 16), vdupq_n_u32(1));
    const uint32x4_t up = vaddq_u32(word, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
    const uint32x4_t rounded = vandq_u32(up, vdupq_n_u32(0xffff0000U));
    return vbslq_f32(vceqq_f32(x, x), vreinterpretq_f32_u32(rounded), x);  // NaN stays
  }
  static Vec load_even_bf16(const bf16* p) {
    return vreinterpretq_f32_u32(vshlq_n_u32(load_as<uint32x4_t>(p), 16));
  }
  static Vec load_odd_bf16(const bf16* p) {
    return vreinterpretq_f32_u32(vandq_u32(load_as<uint32x4_t>(p), vdupq_n_u32(0xffff0000U)));
  }
  static Vec load_f16(const f16* p) { return vcvt_f32_f16(load_as<float16x4_t>(p)); }
  static Vec load_u8(const uint8_t* p) {
    uint32_t four = 0;
    std::memcpy(&four, p, sizeof four);
    return vcvtq_f32_u32(vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(four)))));
  }

  using Words = uint32x4_t;
  static Words load_words(const uint32_t* p) { return vld1q_u32(p); }
  template <int kBits, int kIndex>
  static Vec quantized_value(Words words) {
    constexpr int kShift = code_shift<kBits>(kIndex);
    if constexpr (kShift > 0) words = vshrq_n_u32(words, kShift);
    if constexpr (kShift + kBits < 32) words = vandq_u32(words, vdupq_n_u32((1U << kBits) - 1));
    return vcvtq_f32_u32(words);
  }
};

}  // namespace
}  // namespace lacuna
