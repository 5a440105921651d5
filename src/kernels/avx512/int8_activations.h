// GEMM of int8 activations (KernelTable::int8_activations) with quantized weights, which are multiplied as
// stored or unpacked to bytes: one instruction multiplies 64 of them.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/avx512/int16_activations.h"
#include "kernels/avx512/vectors.h"
#include "kernels/generic/int8_activations.h"
#include "kernels/generic/quantized.h"
#include "kernels/panels.h"
#include "kernels/table.h"

namespace lacuna {
namespace {  // NOLINT: as in vectors.h

/// Accumulators over one group (with one scale per output channel: over the inputs of one row scale) are
/// exact; they are then scaled and added as floats.
///   kGroup  inputs per scale; 0: one scale per output channel
template <int kBits, int kGroup, bool kHasMinimum>
struct Int8Kernel {
  using Vectors = Avx512;
  using TileElement = uint8_t;
  static constexpr int64_t kBytesPerInput = kPanelWidth * kBits / 8;
  // 7 x 2 accumulators, 2 weights and 1 input; with groups 6 x 4 accumulators.
  static constexpr int kTileRows = kGroup == 0 ? 7 : 6;
  static constexpr int64_t kDepthBlock = 3 * generic::kInt8Group;  // 12 KiB of a panel
  static constexpr int kPanelsOfFewRows = 2;                       // as in Int16Kernel
  static constexpr int64_t kBytesAhead = 0;

  static const std::byte* place(const PanelProduct& p, int64_t panel, int64_t k) {
    return Int16Kernel<kBits>::place(p, panel, k);
  }
  static const uint8_t* slice(const PanelProduct& p, int64_t panel, int64_t k, int64_t depth,
                              uint8_t* space) {
    return Int16Kernel<kBits>::slice(p, panel, k, depth, space);
  }

  template <int kPanels, int kRows>
  static void tile(const PanelProduct& p, int64_t first_row, const generic::Slices<Int8Kernel>& slices) {
    const QuantizedLayout layout(p.quantization, p.depth);
    const int64_t row_bytes = p.a_strides.row * p.a_element_bytes;
    const auto* const rows = static_cast<const std::byte*>(p.a) + first_row * row_bytes;
    float* const out = p.out + first_row * p.out_stride + slices.panel * kPanelWidth;
    const int64_t out_stride = p.out_stride;
    const int64_t scales_per_row = p.scales_per_row;
    const float* row_scales = p.row_scales + first_row * scales_per_row + slices.k / generic::kInt8Group;
    for (int64_t begin = 0; begin < slices.depth; begin += generic::kInt8Group, ++row_scales) {
      const int64_t end = std::min(begin + generic::kInt8Group, slices.depth);
      __m512 all[kRows][kPanels];
      for (int64_t run = begin; run < end; run += kRun) {
        Sum sums[kRows][kPanels];
#pragma GCC unroll 16
        for (auto& of_row : sums) {
#pragma GCC unroll 2
          for (Sum& sum : of_row) sum = Sum();
        }
        for (int64_t k = run; k < std::min(run + kRun, end); k += 4) {
          __m512i words[kPanels];
          for (int i = 0; i < kPanels; ++i) {
            __builtin_prefetch(slices.next[i] + k * kBytesPerInput, 0, 2);
            words[i] = _mm512_loadu_si512(slices.begin[i] + k * kPanelWidth);
          }
#pragma GCC unroll 16
          for (int r = 0; r < kRows; ++r) {
            const __m512i x = broadcast(rows + r * row_bytes + slices.k + k);
#pragma GCC unroll 2
            for (int i = 0; i < kPanels; ++i)
              sums[r][i] = (Sum)_mm512_dpbusd_epi32((__m512i)sums[r][i], words[i], x);
          }
        }
#pragma GCC unroll 2
        for (int i = 0; i < kPanels; ++i) {
          const Scales scales(p, layout, slices.panel + i, slices.k + run);
#pragma GCC unroll 16
          for (int r = 0; r < kRows; ++r) {
            const __m512 before = run > begin ? all[r][i] : _mm512_setzero_ps();
            const std::byte* const row_sums = rows + r * row_bytes + p.depth;
            all[r][i] = add_run(before, sums[r][i], scales, row_sums + (slices.k + run) / 4);
          }
        }
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const __m512 row_scale = _mm512_set1_ps(row_scales[r * scales_per_row]);
#pragma GCC unroll 2
        for (int i = 0; i < kPanels; ++i) {
          float* const at = out + r * out_stride + i * kPanelWidth;
          const __m512 before = slices.k + begin > 0 ? _mm512_loadu_ps(at) : _mm512_setzero_ps();
          _mm512_storeu_ps(at, _mm512_fmadd_ps(all[r][i], row_scale, before));
        }
      }
    }
  }

  static void finish(const PanelProduct& p, int64_t panel, int64_t count, int64_t first_row,
                     int64_t end_row) {
    generic::scale_sums<Avx512>(p, panel, count, first_row, end_row);
  }

 private:
  // Not __m512i, as in Int16Kernel.
  using Sum [[gnu::vector_size(64)]] = int32_t;
  static constexpr int64_t kRun = kGroup == 0 ? generic::kInt8Group : kGroup;
  static constexpr int64_t kInputsOfSum = 16;

  /// Scales and minimums of one group of sixteen outputs.
  struct Scales {
    __m512 scale, minimum;

    Scales(const PanelProduct& p, const QuantizedLayout& layout, int64_t panel, int64_t k)
        : scale(_mm512_setzero_ps()), minimum(scale) {
      if constexpr (kGroup == 0) return;
      const std::byte* const begin = generic::begin_of(p, panel);
      const bool is_wide = p.quantization.wide_scales;
      scale = load(begin + layout.scale(0, layout.group_of(k)), is_wide);
      minimum = kHasMinimum ? load(begin + layout.minimum(0, layout.group_of(k)), is_wide)
                            : _mm512_mul_ps(scale, _mm512_set1_ps(-(1 << (kBits - 1))));
    }

   private:
    static __m512 load(const std::byte* at, bool is_wide) {
      return is_wide ? Avx512::load(reinterpret_cast<const float*>(at))
                     : Avx512::load_f16(reinterpret_cast<const f16*>(at));
    }
  };

  /// Broadcasts four inputs, or a sum, to each output.
  static __m512i broadcast(const std::byte* from) {
    int32_t word = 0;
    std::memcpy(&word, from, sizeof word);
    return _mm512_set1_epi32(word);
  }

  ///   row_sums  sums of the row's integers, from the run's first on
  static __m512 add_run(__m512 all, Sum sum, const Scales& scales, const std::byte* row_sums) {
    const __m512 numbers = _mm512_cvtepi32_ps((__m512i)sum);
    if constexpr (kGroup == 0) return numbers;
    __m512i row_sum = broadcast(row_sums);
    if constexpr (kGroup == 2 * kInputsOfSum)
      row_sum = _mm512_add_epi32(row_sum, broadcast(row_sums + sizeof(int32_t)));
    const __m512 scaled = _mm512_fmadd_ps(numbers, scales.scale, all);
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(row_sum), scales.minimum, scaled);
  }
};

template <int kBits, int kGroup>
void int8_product_of_groups(const PanelProduct& p) {
  p.quantization.has_minimum ? generic::panel_product<Int8Kernel<kBits, kGroup, true>>(p)
                             : generic::panel_product<Int8Kernel<kBits, kGroup, false>>(p);
}

template <int kBits>
void int8_product_of(const PanelProduct& p) {
  if (p.quantization.scales_sums()) return generic::panel_product<Int8Kernel<kBits, 0, false>>(p);
  p.quantization.group == 16 ? int8_product_of_groups<kBits, 16>(p) : int8_product_of_groups<kBits, 32>(p);
}

void int8_product(const PanelProduct& p) {
  p.quantization.bits == 4 ? int8_product_of<4>(p) : int8_product_of<8>(p);
}

bool takes_int8_activations(const Quantization& quantization) {
  return quantization.bits > 0;
}

}  // namespace
}  // namespace lacuna
