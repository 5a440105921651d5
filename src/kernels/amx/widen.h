// Codes of one step of a panel become bf16, or values of 8 bits, for the tiles, which wait for that where
// rows are few. Compiled into the products, so that some of either goes on at once.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstddef>

#include "kernels/avx512/vectors.h"
#include "kernels/generic/quantised.h"
#include "kernels/panels.h"
#include "kernels/table.h"

namespace lacuna::amx {

inline constexpr int64_t kRowBytes = 64;  // of a tile: a word of each output

inline __m512i load(const std::byte* from) {
  return _mm512_loadu_si512(from);
}

/// Whole numbers of 8 bits, one in each half of a word. f16 has them exactly; bf16's exponent is three bits
/// longer and counts from elsewhere.
inline __m512i whole_numbers_as_bf16(__m512i numbers) {
  const __m512i shifted = _mm512_srli_epi16(_mm512_castph_si512(_mm512_cvtepu16_ph(numbers)), 3);
  const __mmask32 not_zero = _mm512_test_epi16_mask(shifted, shifted);
  return _mm512_maskz_add_epi16(not_zero, shifted, _mm512_set1_epi16((127 - 15) << 7));
}

/// Two pairs of inputs from words of four values.
inline void widen_values(__m512i values, std::byte* out) {
  const __m512i even = _mm512_and_si512(values, _mm512_set1_epi16(0x00ff));
  _mm512_store_si512(out, whole_numbers_as_bf16(even));
  _mm512_store_si512(out + kRowBytes, whole_numbers_as_bf16(_mm512_srli_epi16(values, 8)));
}

using generic::begin_of;

/// Weights, rounded.
template <int kBits>
struct Weights {
  static constexpr int64_t kInputs = kQuantisedDepthStep;

  static void widen(const PanelProduct& p, const QuantisedLayout& layout, int64_t panel, int64_t k,
                    std::byte* out) {
    const generic::CodedPanels<PairCodes, kBits> panels(p, layout);
    generic::widen_slice(panels, panel, k, kInputs, reinterpret_cast<bf16*>(out));
  }
};

/// Values that are codes of 8 bits.
struct CodesOf8Bits {
  static constexpr int64_t kInputs = kQuantisedDepthStep;

  static void widen(const PanelProduct& p, const QuantisedLayout& layout, int64_t panel, int64_t k,
                    std::byte* out) {
    const std::byte* words = begin_of(p, panel) + layout.word(0, k);
    for (int64_t i = 0; i < kInputs; i += 4)
      widen_values(load(words + i * kPanelWidth), out + i / 2 * kRowBytes);
  }
};

/// Values of two levels.
struct TwoLevels {
  static constexpr int64_t kInputs = kQuantisedDepthStep;

  static void widen(const PanelProduct& p, const QuantisedLayout& layout, int64_t panel, int64_t k,
                    std::byte* out) {
    const std::byte* words = begin_of(p, panel) + layout.word(0, k);
    const StepsAndOffsets levels = levels_of(p, layout, panel, k);
    for (int64_t i = 0; i < kInputs; i += 8) {
      const __m512i codes = load(words + i / 2 * kPanelWidth);
      std::byte* to = out + i / 2 * kRowBytes;
      widen_values(levels.values(lower_codes(codes)), to);
      widen_values(levels.values(upper_codes(codes)), to + 2 * kRowBytes);
    }
  }

  /// Of the group of input k.
  static StepsAndOffsets levels_of(const PanelProduct& p, const QuantisedLayout& layout, int64_t panel,
                                   int64_t k) {
    const int64_t group = layout.group_of(k);
    const std::byte* begin = begin_of(p, panel);
    return StepsAndOffsets::read(begin + layout.scale(0, group), begin + layout.minimum(0, group));
  }
};

inline constexpr int64_t kInputsOfBytes = 64;  // of a step

/// Values as bytes, from codes of 8 bits. What is beyond the depth meets zeros of the rows.
struct BytesOf8Bits {
  static constexpr int64_t kInputs = kInputsOfBytes;

  static void widen(const PanelProduct& p, const QuantisedLayout& layout, int64_t panel, int64_t k,
                    std::byte* out) {
    const std::byte* words = begin_of(p, panel) + layout.word(0, k);
    const int64_t rows = std::min(kInputs, p.depth - k) / 4;
    for (int64_t i = 0; i < rows; ++i) _mm512_store_si512(out + i * kRowBytes, load(words + i * kRowBytes));
  }
};

/// The same from codes of 4 bits, of two levels or one.
struct BytesOf4Bits {
  static constexpr int64_t kInputs = kInputsOfBytes;

  static void widen(const PanelProduct& p, const QuantisedLayout& layout, int64_t panel, int64_t k,
                    std::byte* out) {
    const int64_t end = std::min(k + kInputs, p.depth);
    for (; k < end; k += kQuantisedDepthStep) {
      const std::byte* words = begin_of(p, panel) + layout.word(0, k);
      StepsAndOffsets levels = {_mm512_set1_epi16(1), _mm512_setzero_si512()};
      if (p.quantisation.two_levels) levels = TwoLevels::levels_of(p, layout, panel, k);
      for (int64_t i = 0; i < kQuantisedDepthStep; i += 8, words += kRowBytes, out += 2 * kRowBytes) {
        const __m512i codes = load(words);
        _mm512_store_si512(out, levels.values(lower_codes(codes)));
        _mm512_store_si512(out + kRowBytes, levels.values(upper_codes(codes)));
      }
    }
  }
};

}  // namespace lacuna::amx
