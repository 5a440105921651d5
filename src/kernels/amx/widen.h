// Codes of one step, 32 inputs of a panel, become bf16 for the tiles, which wait for that where rows are few.
// Compiled into the products, so that some of either goes on at once.
#pragma once

#include <immintrin.h>

#include "kernels/avx512/vectors.h"
#include "kernels/generic/quantised.h"
#include "kernels/panels.h"
#include "kernels/table.h"

namespace lacuna::amx {

inline constexpr int64_t kRow = 2 * kPanelWidth;  // of bf16: a pair of inputs of each output

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
inline void widen_values(__m512i values, bf16* out) {
  const __m512i even = _mm512_and_si512(values, _mm512_set1_epi16(0x00ff));
  _mm512_store_si512(out, whole_numbers_as_bf16(even));
  _mm512_store_si512(out + kRow, whole_numbers_as_bf16(_mm512_srli_epi16(values, 8)));
}

using generic::begin_of;

/// Weights, rounded.
template <int kBits>
struct Weights {
  static void widen(const PanelProduct& p, const QuantisedLayout& layout, int64_t panel, int64_t k,
                    bf16* out) {
    const generic::CodedPanels<PairCodes, kBits> panels(p, layout);
    generic::widen_slice(panels, panel, k, kQuantisedDepthStep, out);
  }
};

/// Values that are codes of 8 bits.
struct CodesOf8Bits {
  static void widen(const PanelProduct& p, const QuantisedLayout& layout, int64_t panel, int64_t k,
                    bf16* out) {
    const std::byte* words = begin_of(p, panel) + layout.word(0, k);
    for (int64_t i = 0; i < kQuantisedDepthStep; i += 4)
      widen_values(load(words + i * kPanelWidth), out + i * kPanelWidth);
  }
};

/// Values of two levels.
struct TwoLevels {
  static void widen(const PanelProduct& p, const QuantisedLayout& layout, int64_t panel, int64_t k,
                    bf16* out) {
    const std::byte* begin = begin_of(p, panel);
    const std::byte* words = begin + layout.word(0, k);
    const int64_t group = layout.group_of(k);
    const auto levels =
        StepsAndOffsets::read(begin + layout.scale(0, group), begin + layout.minimum(0, group));
    for (int64_t i = 0; i < kQuantisedDepthStep; i += 8) {
      const __m512i codes = load(words + i / 2 * kPanelWidth);
      bf16* to = out + i * kPanelWidth;
      widen_values(levels.values(lower_codes(codes)), to);
      widen_values(levels.values(upper_codes(codes)), to + 2 * kRow);
    }
  }
};

}  // namespace lacuna::amx
