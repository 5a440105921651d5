// Dequantizes one K step of a panel to bf16 or bytes for AMX tiles; the bottleneck with few rows. Inlined
// into the tile loops, so that vector and tile instructions overlap.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstddef>

#include "kernels/avx512/bf16.h"
#include "kernels/avx512/vectors.h"
#include "kernels/generic/quantized.h"
#include "kernels/panels.h"
#include "kernels/table.h"

namespace lacuna::amx {

inline constexpr int64_t kRowBytes = 64;  // bytes per tile row: one word per output

inline __m512i load(const std::byte* from) {
  return _mm512_loadu_si512(from);
}

/// Converts 8-bit integers, one in each half of a word, to bf16 through f16, which holds them exactly. The
/// exponent of bf16 is three bits longer and has another bias.
inline __m512i integers_as_bf16(__m512i numbers) {
  const __m512i shifted = _mm512_srli_epi16(_mm512_castph_si512(_mm512_cvtepu16_ph(numbers)), 3);
  const __mmask32 not_zero = _mm512_test_epi16_mask(shifted, shifted);
  return _mm512_maskz_add_epi16(not_zero, shifted, _mm512_set1_epi16((127 - 15) << 7));
}

/// Writes two pairs of inputs as bf16 from words of four 8-bit values.
inline void store_as_bf16(__m512i values, std::byte* out) {
  const __m512i even = _mm512_and_si512(values, _mm512_set1_epi16(0x00ff));
  _mm512_store_si512(out, integers_as_bf16(even));
  _mm512_store_si512(out + kRowBytes, integers_as_bf16(_mm512_srli_epi16(values, 8)));
}

using generic::begin_of;

/// Group formats: dequantizes to weights, rounded to bf16.
template <int kBits>
struct Weights {
  static constexpr int64_t kInputs = kQuantizedDepthStep;

  static void dequantize(const PanelProduct& p, const QuantizedLayout& layout, int64_t panel, int64_t k,
                         std::byte* out) {
    const generic::QuantizedPanels<Bf16Format, kBits> panels(p, layout);
    generic::dequantize_slice(panels, panel, k, kInputs, reinterpret_cast<bf16*>(out));
  }
};

/// `int8` with one scale per output channel: 8-bit values as bf16.
struct PerChannelInt8 {
  static constexpr int64_t kInputs = kQuantizedDepthStep;

  static void dequantize(const PanelProduct& p, const QuantizedLayout& layout, int64_t panel, int64_t k,
                         std::byte* out) {
    const std::byte* words = begin_of(p, panel) + layout.word(0, k);
    for (int64_t i = 0; i < kInputs; i += 4)
      store_as_bf16(load(words + i * kPanelWidth), out + i / 2 * kRowBytes);
  }
};

/// `int4` with two levels: 8-bit values as bf16.
struct TwoLevels {
  static constexpr int64_t kInputs = kQuantizedDepthStep;

  static void dequantize(const PanelProduct& p, const QuantizedLayout& layout, int64_t panel, int64_t k,
                         std::byte* out) {
    const std::byte* words = begin_of(p, panel) + layout.word(0, k);
    const ScalesAndOffsets levels = levels_of(p, layout, panel, k);
    for (int64_t i = 0; i < kInputs; i += 8) {
      const __m512i nibbles = load(words + i / 2 * kPanelWidth);
      std::byte* to = out + i / 2 * kRowBytes;
      store_as_bf16(levels.values(low_nibbles(nibbles)), to);
      store_as_bf16(levels.values(high_nibbles(nibbles)), to + 2 * kRowBytes);
    }
  }

  /// Integer scales and offsets of the group of input k.
  static ScalesAndOffsets levels_of(const PanelProduct& p, const QuantizedLayout& layout, int64_t panel,
                                    int64_t k) {
    const int64_t group = layout.group_of(k);
    const std::byte* begin = begin_of(p, panel);
    return ScalesAndOffsets::read(begin + layout.scale(0, group), begin + layout.minimum(0, group));
  }
};

inline constexpr int64_t kInt8KStep = 64;  // inputs per int8 tile

/// `int8` as bytes. Inputs beyond K are not written, because the row's values there are zero.
struct Int8Bytes {
  static constexpr int64_t kInputs = kInt8KStep;

  static void dequantize(const PanelProduct& p, const QuantizedLayout& layout, int64_t panel, int64_t k,
                         std::byte* out) {
    const std::byte* words = begin_of(p, panel) + layout.word(0, k);
    const int64_t rows = std::min(kInputs, p.depth - k) / 4;
    for (int64_t i = 0; i < rows; ++i) _mm512_store_si512(out + i * kRowBytes, load(words + i * kRowBytes));
  }
};

/// `int4` as bytes, with two levels or one.
struct Int4Bytes {
  static constexpr int64_t kInputs = kInt8KStep;

  static void dequantize(const PanelProduct& p, const QuantizedLayout& layout, int64_t panel, int64_t k,
                         std::byte* out) {
    const int64_t end = std::min(k + kInputs, p.depth);
    for (; k < end; k += kQuantizedDepthStep) {
      const std::byte* words = begin_of(p, panel) + layout.word(0, k);
      ScalesAndOffsets levels = {_mm512_set1_epi16(1), _mm512_setzero_si512()};
      if (p.quantization.two_levels) levels = TwoLevels::levels_of(p, layout, panel, k);
      for (int64_t i = 0; i < kQuantizedDepthStep; i += 8, words += kRowBytes, out += 2 * kRowBytes) {
        const __m512i nibbles = load(words);
        _mm512_store_si512(out, levels.values(low_nibbles(nibbles)));
        _mm512_store_si512(out + kRowBytes, levels.values(high_nibbles(nibbles)));
      }
    }
  }
};

}  // namespace lacuna::amx
