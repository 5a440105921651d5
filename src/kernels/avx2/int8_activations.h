// GEMM of int8 activations (KernelTable::int8_activations) with 4-bit weights, which need only a mask and a
// shift: one instruction multiplies 32 of them.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/avx2/int16_activations.h"
#include "kernels/avx2/vectors.h"
#include "kernels/generic/int8_activations.h"
#include "kernels/generic/quantized.h"
#include "kernels/panels.h"
#include "kernels/table.h"

namespace lacuna {
namespace {  // NOLINT: as in avx512/vectors.h

/// Accumulators over 32 inputs are exact in 16 bits. With two levels, or with one scale per output channel,
/// they are added as integers; in group formats they are scaled and added as floats. The row's scale is
/// applied every 256 inputs.
///   kGroup  inputs per scale; 0: one scale per output channel
template <int kGroup, bool kHasMinimum, bool kTwoLevels>
struct Int8Kernel {
  using Vectors = Avx2;
  using Panels = Int16Panels<4, kGroup, kHasMinimum, kTwoLevels>;
  using TileElement = std::byte;
  static constexpr int64_t kBytesPerInput = kPanelWidth / 2;
  // 6 x 2 accumulators, 2 words of weights, 1 input and 1 product fill the 16 registers.
  static constexpr int kTileRows = 6;
  static constexpr int64_t kDepthBlock = generic::kInt8Group;
  static constexpr int kPanelsOfFewRows = 1;
  static constexpr int64_t kBytesAhead = 0;

  static const std::byte* place(const PanelProduct& p, int64_t panel, int64_t k) {
    return Panels(p).words(panel, k);
  }

  static const std::byte* slice(const PanelProduct& p, int64_t panel, int64_t k, int64_t /*depth*/,
                                std::byte* /*space*/) {
    return place(p, panel, k);
  }

  template <int kPanels, int kRows>
  static void tile(const PanelProduct& p, int64_t first_row, const generic::Slices<Int8Kernel>& slices) {
    static_assert(kPanels == 1);
    const Panels panels(p);
    const int64_t row_bytes = p.a_strides.row * int64_t{sizeof(float)};
    const auto* const rows = static_cast<const std::byte*>(p.a) + first_row * row_bytes;
    const std::byte* third_rows[(kRows + 2) / 3];  // as in generic::product_tile
    for (int i = 0; i < (kRows + 2) / 3; ++i) third_rows[i] = rows + 3 * i * row_bytes + slices.k;
    const std::byte* row_sums = rows + p.depth + slices.k / 8;
    const std::byte* words = slices.begin[0];
    const std::byte* next = slices.next[0];
    GroupFactors factors(panels, slices.panel, slices.k);
    Run runs[kRows];
#pragma GCC unroll 16
    for (Run& run : runs) run = Run();
    for (int64_t k = 0; k < slices.depth; k += kRun, words += kRun * kBytesPerInput) {
      for (int64_t i = 0; i < kRun * kBytesPerInput; i += kCacheLine, next += kCacheLine)
        __builtin_prefetch(next, 0, 2);
      Halves sums[kRows];
#pragma GCC unroll 16
      for (Halves& sum : sums) sum = Halves();
      const auto add_fours = [&](auto unpack, int64_t offset) {
        const auto* from = reinterpret_cast<const __m256i*>(words);
#pragma GCC unroll 1
        for (int64_t i = 0; i < kRun; i += 8, from += 2) {
          const Pairs nibbles = {unpack(_mm256_loadu_si256(from)), unpack(_mm256_loadu_si256(from + 1))};
#pragma GCC unroll 16
          for (int r = 0; r < kRows; ++r)
            add_products(nibbles, third_rows[r / 3] + r % 3 * row_bytes + offset + i, sums[r]);
        }
      };
      // All low nibbles first: with both at once, accumulators would not fit the registers.
      add_fours(Panels::low_nibbles, 0);
      add_fours(Panels::high_nibbles, 4);
      for (auto& row : third_rows) row += kRun;
      if constexpr (kTwoLevels) {
        // In place, to need no further registers.
        const Pairs group_scales = factors.integer_scales();
#pragma GCC unroll 16
        for (Halves& sum : sums)
          sum = {madd(sum.lower, group_scales.lower), madd(sum.upper, group_scales.upper)};
      }
      const typename GroupFactors::Values values = factors.values();
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) add_group(sums[r], values, row_sums + r * row_bytes, runs[r]);
      row_sums += sizeof(int32_t);
      factors.advance();
    }
    float* const out = p.out + first_row * p.out_stride + slices.panel * kPanelWidth;
    const int64_t out_stride = p.out_stride;
    const bool accumulate = slices.k > 0;
    const int64_t scales_per_row = p.scales_per_row;
    const float* const row_scales = p.row_scales + first_row * scales_per_row + slices.k / kDepthBlock;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      float* const at = out + r * out_stride;
      const __m256 row_scale = _mm256_broadcast_ss(row_scales + r * scales_per_row);
      Floats all = {_mm256_setzero_ps(), _mm256_setzero_ps()};
      if (accumulate) all = {Avx2::load(at), Avx2::load(at + Avx2::kLanes)};
      Avx2::store(at, _mm256_fmadd_ps(as_floats(runs[r].lower), row_scale, all.lower));
      Avx2::store(at + Avx2::kLanes, _mm256_fmadd_ps(as_floats(runs[r].upper), row_scale, all.upper));
    }
  }

  static void finish(const PanelProduct& p, int64_t panel, int64_t count, int64_t first_row,
                     int64_t end_row) {
    generic::scale_sums<Avx2>(p, panel, count, first_row, end_row);
  }

 private:
  static constexpr int64_t kRun = 32;

  /// 16-bit accumulators, two per output. Not __m256i, as Int32Sums.
  struct Halves {
    using Vec [[gnu::vector_size(32)]] = int16_t;
    Vec lower, upper;
  };
  /// Accumulators over the inputs of one row scale.
  using Run = std::conditional_t<kGroup == 0, Int32Sums, Floats>;

  static __m256i broadcast(const std::byte* word) {
    return _mm256_castps_si256(_mm256_broadcast_ss(reinterpret_cast<const float*>(word)));
  }
  static typename Halves::Vec madd(auto a, __m256i b) {
    return (typename Halves::Vec)_mm256_madd_epi16((__m256i)a, b);
  }
  static Int32Sums::Vec words(typename Halves::Vec x) {
    return (Int32Sums::Vec)x;
  }
  static Int32Sums::Vec in_words(typename Halves::Vec x) {
    return words(madd(x, _mm256_set1_epi16(1)));
  }
  static __m256 as_floats(Int32Sums::Vec x) {
    return _mm256_cvtepi32_ps((__m256i)x);
  }
  static __m256 as_floats(__m256 x) {
    return x;
  }

  /// Cannot overflow: sixteen products of a 4-bit value and a byte of at most 128 add up to less than 2^15.
  static void add_products(const Pairs& nibbles, const std::byte* four, Halves& sum) {
    const __m256i x = broadcast(four);
    sum.lower += (typename Halves::Vec)_mm256_maddubs_epi16(nibbles.lower, x);
    sum.upper += (typename Halves::Vec)_mm256_maddubs_epi16(nibbles.upper, x);
  }

  /// Factors of the accumulators over 32 inputs, group by group.
  class GroupFactors {
   public:
    struct Values {
      Floats scales = {};
      Floats minimums = {};
      Pairs offsets = {};  // with two levels, in the lower halves of words
    };

    GroupFactors(const Panels& panels, int64_t panel, int64_t k)
        : panels_(panels),
          scales_(panels.scales_begin(panel, k)),
          minimums_(panels.minimums_begin(panel, k)),
          bytes_(panels.group_bytes()) {}

    void advance() {
      scales_ += bytes_;
      minimums_ += bytes_;
    }

    Values values() const {
      Values values;
      if constexpr (kGroup > 0) values.scales = panels_.floats(scales_);
      if constexpr (kHasMinimum) values.minimums = panels_.floats(minimums_);
      if constexpr (kTwoLevels) values.offsets = integers(minimums_);
      return values;
    }

    /// Integer scales with two levels, in both halves of words.
    Pairs integer_scales() const {
      const Pairs scales = integers(scales_);
      return {_mm256_or_si256(scales.lower, _mm256_slli_epi32(scales.lower, 16)),
              _mm256_or_si256(scales.upper, _mm256_slli_epi32(scales.upper, 16))};
    }

   private:
    static Pairs integers(const std::byte* from) {
      const auto* const lower = reinterpret_cast<const __m128i*>(from);
      const auto* const upper = reinterpret_cast<const __m128i*>(from + Avx2::kLanes);
      return {_mm256_cvtepu8_epi32(_mm_loadl_epi64(lower)), _mm256_cvtepu8_epi32(_mm_loadl_epi64(upper))};
    }

    const Panels& panels_;
    const std::byte* scales_;
    const std::byte* minimums_;
    int64_t bytes_;
  };

  ///   sum      with two levels already multiplied by the integer scales
  ///   row_sum  sum of the row's 32 integers
  static void add_group(const Halves& sum, const typename GroupFactors::Values& values,
                        const std::byte* row_sum, Run& run) {
    const __m256i x = broadcast(row_sum);
    if constexpr (kTwoLevels) {
      run.lower += words(sum.lower) + words(madd(x, values.offsets.lower));
      run.upper += words(sum.upper) + words(madd(x, values.offsets.upper));
    } else if constexpr (kGroup == 0) {
      run.lower += in_words(sum.lower);
      run.upper += in_words(sum.upper);
    } else if constexpr (kHasMinimum) {
      const __m256 of_row = _mm256_cvtepi32_ps(x);
      run.lower = _mm256_fmadd_ps(as_floats(in_words(sum.lower)), values.scales.lower, run.lower);
      run.upper = _mm256_fmadd_ps(as_floats(in_words(sum.upper)), values.scales.upper, run.upper);
      run.lower = _mm256_fmadd_ps(of_row, values.minimums.lower, run.lower);
      run.upper = _mm256_fmadd_ps(of_row, values.minimums.upper, run.upper);
    } else {
      const auto middles = (Int32Sums::Vec)_mm256_slli_epi32(x, 3);
      run.lower = _mm256_fmadd_ps(as_floats(in_words(sum.lower) - middles), values.scales.lower, run.lower);
      run.upper = _mm256_fmadd_ps(as_floats(in_words(sum.upper) - middles), values.scales.upper, run.upper);
    }
  }
};

void int8_product(const PanelProduct& p) {
  if (p.quantization.two_levels) return generic::panel_product<Int8Kernel<0, false, true>>(p);
  if (p.quantization.group == 0) return generic::panel_product<Int8Kernel<0, false, false>>(p);
  p.quantization.has_minimum ? generic::panel_product<Int8Kernel<32, true, false>>(p)
                             : generic::panel_product<Int8Kernel<32, false, false>>(p);
}

bool takes_int8_activations(const Quantization& quantization) {
  return quantization.bits == 4 && quantization.group != 16;
}

/// Quantizes a row to int8. Each four values are in the order 0, 2, 1, 3, as in weights; the sums of every 32
/// values follow the row.
float quantize_row(const void* packed, const RowStrides& /*strides*/, int64_t padded_count, void* out,
                   float* scales) {
  const auto* x = static_cast<const float*>(packed);
  auto* const numbers = static_cast<int8_t*>(out);
  auto* const sums = reinterpret_cast<int32_t*>(numbers + padded_count);
  double sum = 0;
  for (int64_t begin = 0; begin < padded_count; begin += generic::kInt8Group) {
    const int64_t end = std::min(begin + generic::kInt8Group, padded_count);
    const generic::IntegerScale scale = generic::int8_scale(max_magnitude(x + begin, end - begin));
    const __m256 inverse = _mm256_set1_ps(scale.inverse);
    const auto quantize = [&](const float* eight) {
      return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(eight), inverse));
    };
    const __m256i order = _mm256_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15, 0, 2, 1, 3,
                                           4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15);
    int64_t group_sum = 0;
    for (int64_t i = begin; i < end; i += 32) {
      const __m256i lower = _mm256_packs_epi32(quantize(x + i), quantize(x + i + 8));
      const __m256i upper = _mm256_packs_epi32(quantize(x + i + 16), quantize(x + i + 24));
      // Groups of four in the order 0, 2, 4, 6, 1, 3, 5, 7.
      const __m256i fours = _mm256_packs_epi16(lower, upper);
      const __m256i in_order = _mm256_permutevar8x32_epi32(fours, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
      const __m256i bytes = _mm256_shuffle_epi8(in_order, order);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(numbers + i), bytes);
      const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes);
      __m128i of_four = _mm_add_epi16(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
      of_four = _mm_add_epi16(of_four, _mm_unpackhi_epi64(of_four, of_four));
      const int32_t both = _mm_cvtsi128_si32(_mm_add_epi16(of_four, _mm_srli_epi64(of_four, 32)));
      sums[i / 32] = static_cast<int16_t>(both) + (both >> 16);
      group_sum += sums[i / 32];
    }
    scales[begin / generic::kInt8Group] = scale.scale;
    sum += double{scale.scale} * static_cast<double>(group_sum);
  }
  return static_cast<float>(sum);
}

}  // namespace
}  // namespace lacuna
