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
/// exact; they are then scaled and added as floats. Each tile of rows unpacks 4-bit weights in registers.
/// With two levels, which cost more, the first tile stores the bytes for the others.
///   kGroup       inputs per scale; 0: one scale per output channel
///   kHasMinimum  minimums of groups; with kGroup 0: scales and offsets of two levels
template <int kBits, int kGroup, bool kHasMinimum>
struct Int8Kernel {
  using Vectors = Avx512;
  using TileElement = uint8_t;
  static constexpr bool kTwoLevels = kGroup == 0 && kHasMinimum;
  static constexpr int64_t kBytesPerInput = kPanelWidth * kBits / 8;
  // 12 x 2 accumulators, 2 weights, 1 input, and 4 scales and offsets fill 31 of 32 registers. Groups need
  // twice the accumulators, half of which are idle while the others are multiplied.
  static constexpr int kTileRows = kGroup == 0 ? 12 : kBits == 4 ? 7 : 8;
  static constexpr int64_t kDepthBlock = 3 * generic::kInt8Group;  // 12 KiB of a panel
  static constexpr int kPanelsOfFewRows = 2;                       // as in Int16Kernel
  static constexpr int64_t kBytesAhead = 0;

  static const std::byte* place(const PanelProduct& p, int64_t panel, int64_t k) {
    return Int16Kernel<kBits, kTwoLevels>::place(p, panel, k);
  }
  static const uint8_t* slice(const PanelProduct& p, int64_t panel, int64_t k, int64_t depth,
                              uint8_t* space) {
    return Int16Kernel<kBits, kTwoLevels>::slice(p, panel, k, depth, space);
  }

  template <int kPanels, int kRows>
  static void tile(const PanelProduct& p, int64_t first_row, const generic::Slices<Int8Kernel>& slices) {
    if constexpr (kTwoLevels) {
      if (first_row % generic::kRowBlock > 0) {
        return BytesKernel::template tile<kPanels, kRows>(p, first_row,
                                                          generic::unpacked<BytesKernel>(slices));
      }
    }
    // Chains of few accumulators would wait for their own results.
    constexpr int kChains = kRows * kPanels <= 8 ? 2 : 1;
    const QuantizedLayout layout(p.quantization, p.depth);
    const int64_t row_bytes = p.a_strides.row * p.a_element_bytes;
    const auto* const rows = static_cast<const std::byte*>(p.a) + first_row * row_bytes;
    float* const out = p.out + first_row * p.out_stride + slices.panel * kPanelWidth;
    const int64_t out_stride = p.out_stride;
    const int64_t scales_per_row = p.scales_per_row;
    const float* row_scales = p.row_scales + first_row * scales_per_row + slices.k / generic::kInt8Group;
    // A base for three rows, as in generic::product_tile().
    constexpr int kThirdRows = (kRows + 2) / 3;
    const std::byte* inputs[kThirdRows];
    const std::byte* row_sums[kThirdRows];
    for (int i = 0; i < kThirdRows; ++i) {
      inputs[i] = rows + 3 * i * row_bytes + slices.k;
      row_sums[i] = rows + 3 * i * row_bytes + p.depth + slices.k / 4;
    }
    for (int64_t begin = 0; begin < slices.depth; begin += generic::kInt8Group, ++row_scales) {
      const int64_t end = std::min(begin + generic::kInt8Group, slices.depth);
      const __mmask16 accumulated = slices.k + begin > 0 ? 0xffff : 0;
      __m512 all[kRows][kPanels];
#pragma GCC unroll 16
      for (auto& of_row : all) {
#pragma GCC unroll 2
        for (__m512& sum : of_row) sum = _mm512_setzero_ps();
      }
      Sum sums[kRows][kPanels][kChains];
      for (int64_t run = begin; run < end; run += kRun) {
        if (kGroup > 0 || run == begin) begin_run(sums, row_sums, row_bytes);
        const Levels<kTwoLevels> levels(p, layout, slices.panel, slices.k + run, kPanels);
        const int64_t run_end = kGroup > 0 ? run + kRun : std::min(run + kRun, end);
        for (int64_t k = run; k < run_end; k += 8) {
          const auto half = [&]<int kHalf>() {
            __m512i words[kPanels];
#pragma GCC unroll 2
            for (int i = 0; i < kPanels; ++i) {
              if (kBits == 8 || kHalf == 0)
                __builtin_prefetch(slices.next[i] + (k + 4 * kHalf) * kBytesPerInput, 0, 2);
              words[i] = levels.apply(i, bytes_of<kBits, kHalf>(slices.begin[i] + k * kBytesPerInput));
              if (kTwoLevels && 2 * kRows > kTileRows)
                _mm512_store_si512(slices.space[i] + (k + 4 * kHalf) * kPanelWidth, words[i]);
            }
#pragma GCC unroll 16
            for (int r = 0; r < kRows; ++r) {
              const __m512i x = broadcast(inputs[r / 3] + r % 3 * row_bytes + 4 * kHalf);
#pragma GCC unroll 2
              for (int i = 0; i < kPanels; ++i) {
                Sum& sum = sums[r][i][kHalf % kChains];
                sum = (Sum)_mm512_dpbusd_epi32((__m512i)sum, words[i], x);
              }
            }
          };
          half.template operator()<0>();
          half.template operator()<1>();
          for (auto& three_rows : inputs) three_rows += 8;
        }
        if constexpr (kGroup > 0) {
          const Scales scales[2] = {{p, layout, slices.panel, slices.k + run},
                                    {p, layout, slices.panel + kPanels - 1, slices.k + run}};
          add_run(sums, scales, row_sums, row_bytes, all);
          for (auto& three_rows : row_sums) three_rows += kRun / 4;
        }
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const __m512 row_scale = _mm512_set1_ps(row_scales[r * scales_per_row]);
#pragma GCC unroll 2
        for (int i = 0; i < kPanels; ++i) {
          float* const at = out + r * out_stride + i * kPanelWidth;
          const __m512 sum = kGroup > 0 ? all[r][i] : numbers(sums[r][i]);
          _mm512_storeu_ps(at, _mm512_fmadd_ps(sum, row_scale, _mm512_maskz_loadu_ps(accumulated, at)));
        }
      }
    }
  }

  static void finish(const PanelProduct& p, int64_t panel, int64_t count, int64_t first_row,
                     int64_t end_row) {
    generic::scale_sums<Avx512>(p, panel, count, first_row, end_row);
  }

 private:
  using BytesKernel = Int8Kernel<8, 0, false>;
  // Not __m512i, as in Int16Kernel.
  using Sum [[gnu::vector_size(64)]] = int32_t;
  static constexpr int64_t kRun = kGroup > 0   ? kGroup
                                  : kTwoLevels ? kQuantizedDepthStep
                                               : generic::kInt8Group;
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
      if constexpr (kHasMinimum) minimum = load(begin + layout.minimum(0, layout.group_of(k)), is_wide);
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

  /// Minus the sum of a run's integers, for each output.
  static __m512i sum_of_run(const std::byte* row_sums) {
    const __m512i sum = broadcast(row_sums);
    if constexpr (kGroup == 2 * kInputsOfSum)
      return _mm512_add_epi32(sum, broadcast(row_sums + sizeof(int32_t)));
    return sum;
  }

  /// An accumulator of a run before its products. Symmetric formats subtract the middle from each code.
  static Sum first_sum(const std::byte* row_sums) {
    if constexpr (kGroup == 0 || kHasMinimum) return Sum();
    return (Sum)_mm512_slli_epi32(sum_of_run(row_sums), kBits - 1);
  }

  template <int kRows, int kPanels, int kChains>
  [[gnu::always_inline]] static void begin_run(Sum (&sums)[kRows][kPanels][kChains],
                                               const std::byte* const* row_sums, int64_t row_bytes) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int i = 0; i < kPanels; ++i) {
        sums[r][i][kChains - 1] = Sum();
        sums[r][i][0] = first_sum(row_sums[r / 3] + r % 3 * row_bytes);
      }
    }
  }

  template <int kChains>
  static __m512 numbers(const Sum (&chains)[kChains]) {
    return _mm512_cvtepi32_ps((__m512i)(kChains == 1 ? chains[0] : chains[0] + chains[kChains - 1]));
  }

  /// Scales the accumulators of a run and adds them to `all`.
  template <int kRows, int kPanels, int kChains>
  [[gnu::always_inline]] static void add_run(const Sum (&sums)[kRows][kPanels][kChains], const Scales* scales,
                                             const std::byte* const* row_sums, int64_t row_bytes,
                                             __m512 (&all)[kRows][kPanels]) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const __m512 row_sum = _mm512_cvtepi32_ps(sum_of_run(row_sums[r / 3] + r % 3 * row_bytes));
#pragma GCC unroll 2
      for (int i = 0; i < kPanels; ++i) {
        all[r][i] = _mm512_fmadd_ps(numbers(sums[r][i]), scales[i].scale, all[r][i]);
        if (kHasMinimum) all[r][i] = _mm512_fnmadd_ps(row_sum, scales[i].minimum, all[r][i]);
      }
    }
  }
};

template <int kBits, int kGroup>
void int8_product_of_groups(const PanelProduct& p) {
  p.quantization.has_minimum ? generic::panel_product<Int8Kernel<kBits, kGroup, true>>(p)
                             : generic::panel_product<Int8Kernel<kBits, kGroup, false>>(p);
}

template <int kBits>
void int8_product_of(const PanelProduct& p) {
  if constexpr (kBits == 4) {
    if (p.quantization.two_levels) return generic::panel_product<Int8Kernel<4, 0, true>>(p);
  }
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
