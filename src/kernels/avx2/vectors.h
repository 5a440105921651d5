// Vectors of AVX2.
#pragma once

#include <immintrin.h>

#include "kernels/panels.h"

namespace lacuna {
// One copy per file, as in avx512/vectors.h.
namespace {  // NOLINT

struct Avx2 {
  using Vec = __m256;
  static constexpr int kLanes = 8;
  static constexpr int kTilePanels = 1;
  static constexpr int kTileRows = 6;  // 6 x 2 accumulators, 2 weights and 1 input fill 15 of 16 registers
  // A sixth row and the mask that splits pairs would use all registers, and g++ then spills accumulators.
  static constexpr int kTileRowsOfPairs = 5;
  static constexpr int kPanelsOfFewRows = 2;  // four accumulators hide the latency of FMAs
  static constexpr int64_t kBytesAhead = 1024;

  static Vec zero() { return _mm256_setzero_ps(); }
  static Vec broadcast(float x) { return _mm256_set1_ps(x); }
  static Vec load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, Vec x) { _mm256_storeu_ps(p, x); }
  static Vec add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
  static Vec subtract(Vec a, Vec b) { return _mm256_sub_ps(a, b); }
  static Vec multiply(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
  static Vec divide(Vec a, Vec b) { return _mm256_div_ps(a, b); }
  static Vec multiply_add(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
  static Vec max(Vec a, Vec b) { return _mm256_max_ps(a, b); }
  static Vec min(Vec a, Vec b) { return _mm256_min_ps(a, b); }
  static Vec round(Vec x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }

  static float reduce_add(Vec x) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
  }
  static float reduce_max(Vec x) {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
  }
  static Vec scale_by_power_of_two(Vec x, Vec n) {
    const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_mul_ps(x, _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23)));
  }
  static Vec zero_where_less(Vec x, Vec a, Vec b) {
    return _mm256_andnot_ps(_mm256_cmp_ps(a, b, _CMP_LT_OQ), x);
  }
  static Vec replace_where_greater(Vec x, Vec replacement, const int32_t* keys, int32_t bound) {
    const __m256i k = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(keys));
    const __m256i greater = _mm256_cmpgt_epi32(k, _mm256_set1_epi32(bound));
    return _mm256_blendv_ps(x, replacement, _mm256_castsi256_ps(greater));
  }
  static Vec round_to_bf16(Vec x) {
    const __m256i word = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(word, 16), _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(word, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i rounded = _mm256_and_si256(up, _mm256_set1_epi32(static_cast<int>(0xffff0000U)));
    const Vec is_nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
    return _mm256_blendv_ps(_mm256_castsi256_ps(rounded), x, is_nan);
  }
  static Vec load_even_bf16(const bf16* p) {
    const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
  }
  static Vec load_odd_bf16(const bf16* p) {
    const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(static_cast<int>(0xffff0000U))));
  }
  static Vec load_f16(const f16* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }

  static Vec load_u8(const uint8_t* p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
  }

  using Words = __m256i;
  static Words load_words(const uint32_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  template <int kBits, int kIndex>
  static Vec quantized_value(Words words) {
    constexpr int kShift = code_shift<kBits>(kIndex);
    if constexpr (kShift > 0) words = _mm256_srli_epi32(words, kShift);
    if constexpr (kShift + kBits < 32) {
      words = _mm256_and_si256(words, _mm256_set1_epi32((1 << kBits) - 1));
    }
    return _mm256_cvtepi32_ps(words);
  }
};

}  // namespace
}  // namespace lacuna
