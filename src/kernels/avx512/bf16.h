// AVX512-BF16: rounding to bf16, its dot product, and dequantization to bf16.
#pragma once

#include <immintrin.h>

#include <cstring>

#include "kernels/avx512/vectors.h"

namespace lacuna {
namespace {  // NOLINT: as in vectors.h

struct Avx512Bf16 : Avx512 {
  static Vec store_bf16(bf16* p, Vec x) {
    const auto rounded = (__m256i)_mm512_cvtneps_pbh(x);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), rounded);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(rounded), 16));
  }
};

/// Multiplies bf16 rows and weights, a pair of inputs at a time, with the dot-product instruction.
struct Bf16Kernel : generic::F32Accumulation<Avx512> {
  using Weights = __m512bh;
  using RowElement = bf16;
  using TileElement = bf16;
  static constexpr int64_t kInputs = 2;
  static constexpr int kParts = 1;

  static __m512bh broadcast(const bf16* a) {
    int32_t pair = 0;
    std::memcpy(&pair, a, sizeof pair);
    return (__m512bh)_mm512_set1_epi32(pair);
  }
  static Weights load(const bf16* b, int /*part*/) { return (__m512bh)_mm512_loadu_si512(b); }
  static Vec multiply_add(__m512bh x, Weights weights, Vec sum) { return _mm512_dpbf16_ps(sum, x, weights); }
};

/// Dequantizes the weights of two neighbouring inputs to bf16.
struct Bf16Format : Bf16Kernel {
  /// Quantized values are converted by placing them in the mantissa of 2^kBits, which adds 2^kBits.
  template <int kBits>
  static constexpr int kAdded = 1 << kBits;

  /// Sixteen outputs, each twice, so that the two inputs of a pair are neighbours.
  struct Words {
    __m512i lower, upper;
  };
  struct FloatsTwice {
    __m512 lower, upper;
  };
  struct Scales {
    FloatsTwice scale, minimum;
  };

  static __m512i lower_outputs() { return _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0); }
  static __m512i upper_outputs() { return _mm512_add_epi32(lower_outputs(), _mm512_set1_epi32(8)); }
  static FloatsTwice twice(__m512 values) {
    return {_mm512_permutexvar_ps(lower_outputs(), values), _mm512_permutexvar_ps(upper_outputs(), values)};
  }
  static Scales scales(__m512 scale, __m512 minimum) { return {twice(scale), twice(minimum)}; }
  static Words load_words(const uint32_t* p) {
    const __m512i words = _mm512_loadu_si512(p);
    return {_mm512_permutexvar_epi32(lower_outputs(), words),
            _mm512_permutexvar_epi32(upper_outputs(), words)};
  }

  template <int kBits, int kIndex>
  static Weights weights(const Words& words, const Scales& scales) {
    constexpr int kPlace = 23 - kBits;  // the mantissa's highest bits
    constexpr auto kTurn = [](int index) { return (32 + kPlace - code_shift<kBits>(index)) % 32; };
    const __m512i turns = _mm512_set1_epi64(int64_t{kTurn(kIndex + 1)} << 32 | kTurn(kIndex));
    const __m512i mask = _mm512_set1_epi32(((1 << kBits) - 1) << kPlace);
    const __m512i power = _mm512_set1_epi32((127 + kBits) << 23);
    const auto code = [&](__m512i words_twice) {
      constexpr int kMaskThenOr = 0xEA;
      const __m512i turned = _mm512_rolv_epi32(words_twice, turns);
      return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(turned, mask, power, kMaskThenOr));
    };
    const __m512 lower = _mm512_fmadd_ps(code(words.lower), scales.scale.lower, scales.minimum.lower);
    const __m512 upper = _mm512_fmadd_ps(code(words.upper), scales.scale.upper, scales.minimum.upper);
    return _mm512_cvtne2ps_pbh(upper, lower);
  }
  static void store(bf16* to, Weights weights) { _mm512_storeu_si512(to, (__m512i)weights); }
};

}  // namespace
}  // namespace lacuna
