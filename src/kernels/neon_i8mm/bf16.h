// GEMM of bf16 rows and weights: one or two rows by pair dot products (BFDOT), more rows by matrix products
// (BFMMLA), which ARM defines as adding two such dot products: bitwise identical.
#pragma once

#include <arm_neon.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/generic/product.h"
#include "kernels/generic/quantized.h"
#include "kernels/neon/vectors.h"
#include "kernels/neon_i8mm/dots.h"

namespace lacuna {
namespace {  // NOLINT: as in avx512/vectors.h

struct NeonBf16 : Neon {
  static Vec store_bf16(bf16* p, Vec x) {
    const uint16x4_t rounded = vreinterpret_u16_bf16(vcvt_bf16_f32(x));
    std::memcpy(static_cast<void*>(p), &rounded, sizeof rounded);
    return vreinterpretq_f32_u32(vshll_n_u16(rounded, 16));
  }
};

/// Multiplies bf16 rows and weights, a pair of inputs at a time.
struct Bf16Kernel : generic::F32Accumulation<NeonBf16> {
  using Weights = uint16x8_t;  // pairs of four outputs
  using RowElement = bf16;
  using TileElement = bf16;
  static constexpr int64_t kInputs = 2;
  static constexpr int kParts = 1;

  static Neon::Input broadcast(const bf16* pair) { return {load_as<float>(pair)}; }
  static Weights load(const bf16* b, int /*part*/) { return load_as<uint16x8_t>(b); }
  [[gnu::always_inline]] static Vec multiply_add(Neon::Input x, Weights weights, Vec sum) {
    asm("bfdot %0.4s, %1.8h, %2.2h[0]" : "+w"(sum) : "w"(weights), "w"(x.value));
    return sum;
  }
};

/// Dequantizes the weights of two neighbouring inputs to bf16.
struct Bf16Format : Bf16Kernel {
  template <int kBits>
  static constexpr int kAdded = 0;

  struct Scales {
    Vec scale, minimum;
  };
  static Scales scales(Vec scale, Vec minimum) { return {scale, minimum}; }
  static Neon::Words load_words(const uint32_t* words) { return Neon::load_words(words); }
  template <int kBits, int kIndex>
  static Weights weights(const Neon::Words& words, const Scales& scales) {
    const Vec even =
        Neon::multiply_add(Neon::quantized_value<kBits, kIndex>(words), scales.scale, scales.minimum);
    const Vec odd =
        Neon::multiply_add(Neon::quantized_value<kBits, kIndex + 1>(words), scales.scale, scales.minimum);
    return vzip1q_u16(vreinterpretq_u16_bf16(vcvtq_low_bf16_f32(even)),
                      vreinterpretq_u16_bf16(vcvtq_low_bf16_f32(odd)));
  }
  static void store(bf16* to, Weights weights) {
    std::memcpy(static_cast<void*>(to), &weights, sizeof weights);
  }
};

/// Kernel for many rows: BFMMLA multiplies a pair of rows with a pair of outputs.
template <typename Panels>
struct MatrixKernel : Panels {
  static constexpr int kPanelsOfFewRows = 1;
  static constexpr int64_t kBytesAhead = 0;

  static const bf16* slice(const PanelProduct& p, int64_t panel, int64_t k, int64_t depth, bf16* space) {
    const bf16* from = Panels::slice(p, panel, k, depth, space);
    for (int64_t i = 0; i < depth * kPanelWidth; i += 4 * kPanelWidth) {
      uint32x4_t words[2][kVectorsOfPanel];
      for (int v = 0; v < kVectorsOfPanel; ++v) {
        words[0][v] = load_as<uint32x4_t>(from + i + v * 8);
        words[1][v] = load_as<uint32x4_t>(from + i + 2 * kPanelWidth + v * 8);
      }
      arrange_pairs_of_outputs(words[0], words[1], space + i);
    }
    return space;
  }

  template <int kPanels, int kRows>
  static void tile(const PanelProduct& p, int64_t first, const generic::Slices<MatrixKernel>& slices) {
    static_assert(kPanels == 1);
    using Pairs = PairsOfRows<kRows>;
    const bf16* const rows = static_cast<const bf16*>(p.a) + first * p.a_strides.row + slices.k;
    float* const out = p.out + first * p.out_stride + slices.panel * kPanelWidth;
    const int64_t out_stride = p.out_stride;
    const bool accumulate = p.accumulate || slices.k > 0;
    float32x4_t sums[Pairs::kPairs][kPairsOfOutputs];
    const auto place = [&](int r, int v) {
      return out + std::min(r, kRows - 1) * out_stride + v * Neon::kLanes;
    };
#pragma GCC unroll 3
    for (int i = 0; i < Pairs::kPairs; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectorsOfPanel; ++v) {
        const auto a = accumulate ? Neon::load(place(2 * i, v)) : Neon::zero();
        const auto b = accumulate ? Neon::load(place(2 * i + 1, v)) : Neon::zero();
        sums[i][2 * v] = of_first_row(a, b);
        sums[i][2 * v + 1] = of_second_row(a, b);
      }
    }
    add_matrix_products<Pairs::kPairs>(slices.begin[0], slices.depth / 4,
                                       Pairs(rows, p.a_strides.row * int64_t{sizeof(bf16)}), sums);
#pragma GCC unroll 3
    for (int i = 0; i < Pairs::kPairs; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectorsOfPanel; ++v) {
        Neon::store(place(2 * i, v), of_first_row(sums[i][2 * v], sums[i][2 * v + 1]));
        if (2 * i + 1 < kRows) {
          Neon::store(place(2 * i + 1, v), of_second_row(sums[i][2 * v], sums[i][2 * v + 1]));
        }
      }
    }
  }
};

inline void bf16_product(const PanelProduct& p) {
  using Panels = generic::DenseKernel<Bf16Kernel, bf16>;
  p.num_rows <= generic::kFewRows ? generic::panel_product<Panels>(p)
                                  : generic::panel_product<MatrixKernel<Panels>>(p);
}

inline void quantized_bf16_product(const PanelProduct& p) {
  if (p.num_rows <= generic::kFewRows) return generic::quantized_product<Bf16Format>(p);
  p.quantization.bits == 4 ? generic::panel_product<MatrixKernel<generic::QuantizedKernel<Bf16Format, 4>>>(p)
                           : generic::panel_product<MatrixKernel<generic::QuantizedKernel<Bf16Format, 8>>>(p);
}

}  // namespace
}  // namespace lacuna
