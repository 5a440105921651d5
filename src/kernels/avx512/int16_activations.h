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

/// Integer scales and offsets of a group of two panels, if the format has two levels.
template <bool kTwoLevels>
struct Levels {
  ScalesAndOffsets of_panel[2];

  Levels(const PanelProduct& p, const QuantizedLayout& layout, int64_t panel, int64_t k, int count) {
    if constexpr (kTwoLevels) {
      const int64_t group = layout.group_of(k);
      for (int i = 0; i < count; ++i) {
        const std::byte* const begin = generic::begin_of(p, panel + i);
        of_panel[i] =
            ScalesAndOffsets::read(begin + layout.scale(0, group), begin + layout.minimum(0, group));
      }
    }
  }
  __m512i apply(int i, __m512i values) const {
    if constexpr (kTwoLevels) return of_panel[i].values(values);
    return values;
  }
};

/// Multiplies int16 activations, as high and low bytes, by words of four 8-bit weights with the integer dot
/// product. The first tile of rows unpacks 4-bit weights to such words, and stores them for the others. A
/// slice is accumulated exactly and then added to `out` as a float.
template <int kBits, bool kTwoLevels>
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

  static const uint8_t* slice(const PanelProduct& p, int64_t panel, int64_t k, int64_t /*depth*/,
                              uint8_t* /*space*/) {
    return reinterpret_cast<const uint8_t*>(place(p, panel, k));
  }

  template <int kPanels, int kRows>
  static void tile(const PanelProduct& p, int64_t first_row, const generic::Slices<Int16Kernel>& slices) {
    if constexpr (kBits == 4) {
      if (first_row % generic::kRowBlock > 0)
        return Int16Kernel<8, false>::tile<kPanels, kRows>(p, first_row,
                                                           generic::unpacked<Int16Kernel<8, false>>(slices));
    }
    const QuantizedLayout layout(p.quantization, p.depth);
    const int64_t a_stride = p.a_strides.row * p.a_element_bytes / int64_t{sizeof(int16_t)};
    const auto* const a = static_cast<const int16_t*>(p.a) + first_row * a_stride + slices.k;
    Sum sums[kRows][kPanels][2] = {};
    for (int64_t run = 0; run < slices.depth; run += kQuantizedDepthStep) {
      const Levels<kTwoLevels> levels(p, layout, slices.panel, slices.k + run, kPanels);
      for (int64_t k = run; k < run + kQuantizedDepthStep; k += 8) {
        const auto half = [&]<int kHalf>() {
          const int64_t input = k + 4 * kHalf;
          __m512i words[kPanels];
#pragma GCC unroll 2
          for (int i = 0; i < kPanels; ++i) {
            if (kBits == 8 || kHalf == 0) __builtin_prefetch(slices.next[i] + input * kBytesPerInput, 0, 2);
            words[i] = levels.apply(i, bytes_of<kBits, kHalf>(slices.begin[i] + k * kBytesPerInput));
            if (kBits == 4 && 2 * kRows > kTileRows)
              _mm512_store_si512(slices.space[i] + input * kPanelWidth, words[i]);
          }
#pragma GCC unroll 16
          for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
            for (int part = 0; part < 2; ++part) {
              const __m512i x = broadcast(a + r * a_stride + input, part);
#pragma GCC unroll 2
              for (int i = 0; i < kPanels; ++i) {
                sums[r][i][part] = (Sum)_mm512_dpbusd_epi32((__m512i)sums[r][i][part], words[i], x);
              }
            }
          }
        };
        half.template operator()<0>();
        half.template operator()<1>();
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

  /// Broadcasts the high or the low bytes of four inputs.
  static __m512i broadcast(const int16_t* a, int part) {
    int32_t four = 0;
    std::memcpy(&four, a + 2 * part, sizeof four);
    return _mm512_set1_epi32(four);
  }
};

void int16_product(const PanelProduct& p) {
  if (p.quantization.two_levels) return generic::panel_product<Int16Kernel<4, true>>(p);
  p.quantization.bits == 4 ? generic::panel_product<Int16Kernel<4, false>>(p)
                           : generic::panel_product<Int16Kernel<8, false>>(p);
}

bool takes_int16_activations(const Quantization& quantization) {
  return quantization.scales_sums();
}

}  // namespace
}  // namespace lacuna
