// Vectors of AVX-512, without the instructions for bf16, and dequantization of 4-bit values.
#pragma once

#include <immintrin.h>

#include <cstring>

#include "kernels/generic/product.h"
#include "kernels/panels.h"

namespace lacuna {
// One copy per file: the linker keeps one copy of a function with external linkage, and files that include
// this one are compiled for different instruction sets.
namespace {  // NOLINT

struct Avx512 {
  using Vec = __m512;
  static constexpr int kLanes = 16;
  static constexpr int kTilePanels = 2;
  static constexpr int kTileRows = 14;  // 14 x 2 accumulators, 2 weights and 1 input fill 31 of 32 registers
  static constexpr int kTileRowsOfPairs = 13;  // 13 x 2 accumulators, 4 weights and 1 input
  static constexpr int kPanelsOfFewRows = 1;   // one stream is read faster than two
  static constexpr int64_t kBytesAhead = 0;

  static Vec zero() { return _mm512_setzero_ps(); }
  static Vec broadcast(float x) { return _mm512_set1_ps(x); }
  static Vec load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, Vec x) { _mm512_storeu_ps(p, x); }
  static Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
  static Vec subtract(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
  static Vec multiply(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
  static Vec divide(Vec a, Vec b) { return _mm512_div_ps(a, b); }
  static Vec multiply_add(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
  static Vec max(Vec a, Vec b) { return _mm512_max_ps(a, b); }
  static Vec min(Vec a, Vec b) { return _mm512_min_ps(a, b); }
  static Vec round(Vec x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static float reduce_add(Vec x) { return _mm512_reduce_add_ps(x); }
  static float reduce_max(Vec x) { return _mm512_reduce_max_ps(x); }
  static Vec scale_by_power_of_two(Vec x, Vec n) { return _mm512_scalef_ps(x, n); }
  static Vec zero_where_less(Vec x, Vec a, Vec b) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ), x);
  }
  static Vec replace_where_greater(Vec x, Vec replacement, const int32_t* keys, int32_t bound) {
    const __mmask16 greater = _mm512_cmpgt_epi32_mask(_mm512_loadu_si512(keys), _mm512_set1_epi32(bound));
    return _mm512_mask_mov_ps(x, greater, replacement);
  }
  static Vec round_to_bf16(Vec x) {
    const __m512i word = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(word, 16), _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(word, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __m512i rounded = _mm512_and_si512(up, _mm512_set1_epi32(static_cast<int>(0xffff0000U)));
    return _mm512_mask_mov_ps(_mm512_castsi512_ps(rounded), _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), x);
  }
  static Vec load_even_bf16(const bf16* p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16));
  }
  static Vec load_odd_bf16(const bf16* p) {
    const __m512i pairs = _mm512_loadu_si512(p);
    return _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xffff0000U))));
  }
  static Vec load_f16(const f16* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static Vec load_u8(const uint8_t* p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }

  using Words = __m512i;
  static Words load_words(const uint32_t* p) { return _mm512_loadu_si512(p); }
  template <int kBits, int kIndex>
  static Vec quantized_value(Words words) {
    constexpr int kShift = code_shift<kBits>(kIndex);
    if constexpr (kShift > 0) words = _mm512_srli_epi32(words, kShift);
    if constexpr (kShift + kBits < 32) {
      words = _mm512_and_si512(words, _mm512_set1_epi32((1 << kBits) - 1));
    }
    return _mm512_cvtepi32_ps(words);
  }
};

/// Integer scales and offsets of one group with two levels, which turn 4-bit values of sixteen outputs into
/// 8-bit ones.
struct ScalesAndOffsets {
  __m512i scale;   // in both halves of an output's word
  __m512i offset;  // in all four bytes

  static ScalesAndOffsets read(const std::byte* scales, const std::byte* offsets) {
    const __m512i in_even_bytes = in_halves(offsets);
    return {in_halves(scales), _mm512_or_si512(in_even_bytes, _mm512_slli_epi32(in_even_bytes, 8))};
  }

  /// Takes words of four 4-bit values, one per byte.
  __m512i values(__m512i nibbles) const {
    // Each 16-bit product computes two 8-bit products, which stay below 256.
    return _mm512_add_epi8(_mm512_mullo_epi16(nibbles, scale), offset);
  }

 private:
  static __m512i in_halves(const std::byte* numbers) {
    const __m512i words = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(numbers)));
    return _mm512_or_si512(words, _mm512_slli_epi32(words, 16));
  }
};

/// 4-bit values of inputs 0 to 3, or 4 to 7, of a word of eight, one per byte.
inline __m512i low_nibbles(__m512i words) {
  return _mm512_and_si512(words, _mm512_set1_epi8(15));
}
inline __m512i high_nibbles(__m512i words) {
  return low_nibbles(_mm512_srli_epi16(words, 4));
}

/// Inputs 0 to 3 (kHalf 0), or 4 to 7, of eight inputs of sixteen outputs, one per byte.
template <int kBits, int kHalf>
__m512i bytes_of(const uint8_t* eight_inputs) {
  if constexpr (kBits == 8) return _mm512_loadu_si512(eight_inputs + 64 * kHalf);
  const __m512i nibbles = _mm512_loadu_si512(eight_inputs);
  return kHalf == 0 ? low_nibbles(nibbles) : high_nibbles(nibbles);
}

}  // namespace
}  // namespace lacuna
