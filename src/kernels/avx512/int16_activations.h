// GEMM of int16 activations (KernelTable::int16_activations) with weights that have one scale per output
// channel. 8-bit weights are multiplied as stored.
#pragma once

#include <immintrin.h>

#include <cstring>

#include "kernels/avx512/vectors.h"
#include "kernels/generic/int16_activations.h"
#include "kernels/generic/quantized.h"
#include "kernels/panels.h"
#include "kernels/table.h"

namespace lacuna {
namespace {  // NOLINT: as in vectors.h

/// Multiplies int16 activations, as high and low bytes, by words of four 8-bit weights with the integer dot
/// product. 4-bit weights are unpacked to such words first, once for all rows. A slice is accumulated exactly
/// and then added to `out` as a float.
template <int kBits>
struct Int16Kernel {
  using Vectors = Avx512;
  using TileElement = uint8_t;
  static constexpr int64_t kBytesPerInput = kPanelWidth * kBits / 8;
  // 7 x 2 accumulators of two parts, 2 weights and 1 input fill 31 of 32 registers.
  static constexpr int kTileRows = 7;
  // 12 KiB of a panel, and no accumulator overflows 32 bits. Another length would change the bits, because
  // accumulators are rounded at the end of a slice.
  static constexpr int64_t kDepthBlock = 768;
  static constexpr int64_t kBytesAhead = 0;
  static constexpr int kPanelsOfFewRows = 2;  // with one, the latency of two accumulators would dominate

  static const std::byte* place(const PanelProduct& p, int64_t panel, int64_t k) {
    const QuantizedLayout layout(p.quantization, p.depth);
    return generic::begin_of(p, panel) + layout.word(0, k);
  }

  static const uint8_t* slice(const PanelProduct& p, int64_t panel, int64_t k, int64_t depth,
                              uint8_t* space) {
    const auto* from = reinterpret_cast<const uint8_t*>(place(p, panel, k));
    if constexpr (kBits == 8) {
      return from;
    } else {
      p.quantization.two_levels ? unpack_values(p, panel, k, depth, from, space)
                                : unpack_nibbles(depth, from, space);
      return space;
    }
  }

  template <int kPanels, int kRows>
  static void tile(const PanelProduct& p, int64_t first_row, const generic::Slices<Int16Kernel>& slices) {
    const int64_t a_stride = p.a_strides.row * p.a_element_bytes / int64_t{sizeof(int16_t)};
    const auto* const a = static_cast<const int16_t*>(p.a) + first_row * a_stride + slices.k;
    Sum sums[kRows][kPanels][2] = {};
    for (int64_t k = 0; k < slices.depth; k += 4) {
      __m512i words[kPanels];
      for (int i = 0; i < kPanels; ++i) {
        __builtin_prefetch(slices.next[i] + k * kBytesPerInput, 0, 2);
        words[i] = _mm512_loadu_si512(slices.begin[i] + k * kPanelWidth);
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
        for (int part = 0; part < 2; ++part) {
          const __m512i x = broadcast(a + r * a_stride + k, part);
#pragma GCC unroll 2
          for (int i = 0; i < kPanels; ++i) {
            sums[r][i][part] = (Sum)_mm512_dpbusd_epi32((__m512i)sums[r][i][part], words[i], x);
          }
        }
      }
    }
    float* out = p.out + first_row * p.out_stride + slices.panel * kPanelWidth;
    const int64_t out_stride = p.out_stride;
    const bool accumulate = slices.k > 0;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r, out += out_stride) {
#pragma GCC unroll 2
      for (int i = 0; i < kPanels; ++i) {
        const __m512 before = accumulate ? _mm512_loadu_ps(out + i * kPanelWidth) : _mm512_setzero_ps();
        const __m512 high = _mm512_cvtepi32_ps((__m512i)sums[r][i][0]);
        const __m512 low = _mm512_cvtepi32_ps((__m512i)sums[r][i][1]);
        _mm512_storeu_ps(out + i * kPanelWidth,
                         _mm512_fmadd_ps(high, _mm512_set1_ps(256), _mm512_add_ps(before, low)));
      }
    }
  }

  static void finish(const PanelProduct& p, int64_t panel, int64_t count, int64_t first_row,
                     int64_t end_row) {
    generic::finish_int16<Avx512>(p, panel, count, first_row, end_row);
  }

 private:
  // Not __m512i, whose elements are 64 bits: g++ would keep the accumulators in memory.
  using Sum [[gnu::vector_size(64)]] = int32_t;

  static constexpr int64_t kWordBytes = kPanelWidth * 4;

  /// Unpacks words of eight 4-bit values into two words of four.
  static void unpack_nibbles(int64_t depth, const uint8_t* from, uint8_t* to) {
    for (int64_t i = 0; i < depth; i += 8, from += kWordBytes, to += 2 * kWordBytes) {
      const __m512i nibbles = _mm512_loadu_si512(from);
      _mm512_store_si512(to, low_nibbles(nibbles));
      _mm512_store_si512(to + kWordBytes, high_nibbles(nibbles));
    }
  }

  /// Two levels: unpacks 4-bit values and applies integer scales and offsets.
  static void unpack_values(const PanelProduct& p, int64_t panel, int64_t k, int64_t depth,
                            const uint8_t* from, uint8_t* to) {
    const QuantizedLayout layout(p.quantization, p.depth);
    const std::byte* const begin = generic::begin_of(p, panel);
    for (int64_t run = 0; run < depth; run += kQuantizedDepthStep) {
      const int64_t group = layout.group_of(k + run);
      const auto levels =
          ScalesAndOffsets::read(begin + layout.scale(0, group), begin + layout.minimum(0, group));
#pragma GCC unroll 4
      for (int64_t i = 0; i < kQuantizedDepthStep; i += 8, from += kWordBytes, to += 2 * kWordBytes) {
        const __m512i nibbles = _mm512_loadu_si512(from);
        _mm512_store_si512(to, levels.values(low_nibbles(nibbles)));
        _mm512_store_si512(to + kWordBytes, levels.values(high_nibbles(nibbles)));
      }
    }
  }

  /// Broadcasts the high or the low bytes of four inputs.
  static __m512i broadcast(const int16_t* a, int part) {
    int32_t four = 0;
    std::memcpy(&four, a + 2 * part, sizeof four);
    return _mm512_set1_epi32(four);
  }
};

void int16_product(const PanelProduct& p) {
  p.quantization.bits == 4 ? generic::panel_product<Int16Kernel<4>>(p)
                           : generic::panel_product<Int16Kernel<8>>(p);
}

bool takes_int16_activations(const Quantization& quantization) {
  return quantization.scales_sums();
}

}  // namespace
}  // namespace lacuna
