// Products of rows of bytes (KernelTable::byte_rows) with weights of 4 bits, whose codes are multiplied as
// they lie in memory but for a mask and a shift: one instruction takes 32 of them.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/avx2/split_rows.h"
#include "kernels/avx2/vectors.h"
#include "kernels/generic/byte_rows.h"
#include "kernels/generic/quantised.h"
#include "kernels/panels.h"
#include "kernels/table.h"

namespace lacuna {
namespace {  // NOLINT: as in avx512/vectors.h

/// Sums of 32 inputs are exact in 16 bits. With two levels and where an output has one scale they are added
/// up exactly, elsewhere scaled and added up as floats; every 256 inputs a row's step is multiplied in.
///   kGroup  inputs that share a scale; 0 where sums are scaled
template <int kGroup, bool kHasMinimum, bool kTwoLevels>
struct ByteStep {
  using Vectors = Avx2;
  using Panels = SplitPanels<4, kGroup, kHasMinimum, kTwoLevels>;
  using TileElement = std::byte;
  static constexpr int64_t kBytesPerInput = kPanelWidth / 2;
  // 6 x 2 sums, 2 words of codes, 1 input and 1 product fill the 16 registers.
  static constexpr int kTileRows = 6;
  static constexpr int64_t kDepthBlock = generic::kInputsOfByteStep;
  static constexpr int64_t kPanelsOfFewRows = 1;

  static const std::byte* place(const PanelProduct& p, int64_t panel, int64_t k) {
    return Panels(p).words(panel, k);
  }

  static const std::byte* slice(const PanelProduct& p, int64_t panel, int64_t k, int64_t /*depth*/,
                                std::byte* /*space*/) {
    return place(p, panel, k);
  }

  template <int kPanels, int kRows>
  static void tile(const PanelProduct& p, int64_t first_row, const generic::Slices<ByteStep>& slices) {
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
      const auto add_fours = [&](auto codes_of, int64_t offset) {
        const auto* from = reinterpret_cast<const __m256i*>(words);
#pragma GCC unroll 1
        for (int64_t i = 0; i < kRun; i += 8, from += 2) {
          const Pairs codes = {codes_of(_mm256_loadu_si256(from)), codes_of(_mm256_loadu_si256(from + 1))};
#pragma GCC unroll 16
          for (int r = 0; r < kRows; ++r)
            add_products(codes, third_rows[r / 3] + r % 3 * row_bytes + offset + i, sums[r]);
        }
      };
      // All lower codes first: were both taken from a word at once, sums would not fit the registers.
      add_fours(Panels::lower_codes, 0);
      add_fours(Panels::upper_codes, 4);
      for (auto& row : third_rows) row += kRun;
      if constexpr (kTwoLevels) {
        // In place, so that they need no further registers.
        const Pairs steps = factors.steps();
#pragma GCC unroll 16
        for (Halves& sum : sums) sum = {madd(sum.lower, steps.lower), madd(sum.upper, steps.upper)};
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
    const int64_t steps_per_row = p.steps_per_row;
    const float* const steps = p.row_steps + first_row * steps_per_row + slices.k / kDepthBlock;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      float* const at = out + r * out_stride;
      const __m256 step = _mm256_broadcast_ss(steps + r * steps_per_row);
      Floats all = {_mm256_setzero_ps(), _mm256_setzero_ps()};
      if (accumulate) all = {Avx2::load(at), Avx2::load(at + Avx2::kLanes)};
      Avx2::store(at, _mm256_fmadd_ps(as_floats(runs[r].lower), step, all.lower));
      Avx2::store(at + Avx2::kLanes, _mm256_fmadd_ps(as_floats(runs[r].upper), step, all.upper));
    }
  }

  static void finish(const PanelProduct& p, int64_t panel, int64_t count, int64_t first_row,
                     int64_t end_row) {
    generic::scale_sums<Avx2>(p, panel, count, first_row, end_row);
  }

 private:
  static constexpr int64_t kRun = 32;

  /// Of 16 bits, two for each output. Not __m256i, as WholeSums.
  struct Halves {
    using Vec [[gnu::vector_size(32)]] = int16_t;
    Vec lower, upper;
  };
  /// Sums over inputs that share a step of the row.
  using Run = std::conditional_t<kGroup == 0, WholeSums, Floats>;

  static __m256i broadcast(const std::byte* word) {
    return _mm256_castps_si256(_mm256_broadcast_ss(reinterpret_cast<const float*>(word)));
  }
  static typename Halves::Vec madd(auto a, __m256i b) {
    return (typename Halves::Vec)_mm256_madd_epi16((__m256i)a, b);
  }
  static WholeSums::Vec words(typename Halves::Vec x) {
    return (WholeSums::Vec)x;
  }
  static WholeSums::Vec in_words(typename Halves::Vec x) {
    return words(madd(x, _mm256_set1_epi16(1)));
  }
  static __m256 as_floats(WholeSums::Vec x) {
    return _mm256_cvtepi32_ps((__m256i)x);
  }
  static __m256 as_floats(__m256 x) {
    return x;
  }

  /// For the inputs of a group: sixteen products of codes below 16 and bytes up to 128 add up to less than
  /// 2^15.
  static void add_products(const Pairs& codes, const std::byte* four, Halves& sum) {
    const __m256i x = broadcast(four);
    sum.lower += (typename Halves::Vec)_mm256_maddubs_epi16(codes.lower, x);
    sum.upper += (typename Halves::Vec)_mm256_maddubs_epi16(codes.upper, x);
  }

  /// What sums over 32 inputs are multiplied with, group by group.
  class GroupFactors {
   public:
    struct Values {
      Floats scales = {};
      Floats minimums = {};
      Pairs offsets = {};  // of two levels, in the lower halves of words
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
      if constexpr (kTwoLevels) values.offsets = whole_numbers(minimums_);
      return values;
    }

    /// Of two levels, in both halves of words.
    Pairs steps() const {
      const Pairs steps = whole_numbers(scales_);
      return {_mm256_or_si256(steps.lower, _mm256_slli_epi32(steps.lower, 16)),
              _mm256_or_si256(steps.upper, _mm256_slli_epi32(steps.upper, 16))};
    }

   private:
    static Pairs whole_numbers(const std::byte* from) {
      const auto* const lower = reinterpret_cast<const __m128i*>(from);
      const auto* const upper = reinterpret_cast<const __m128i*>(from + Avx2::kLanes);
      return {_mm256_cvtepu8_epi32(_mm_loadl_epi64(lower)), _mm256_cvtepu8_epi32(_mm_loadl_epi64(upper))};
    }

    const Panels& panels_;
    const std::byte* scales_;
    const std::byte* minimums_;
    int64_t bytes_;
  };

  ///   sum      multiplied with steps where there are two levels
  ///   row_sum  of the 32 inputs
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
      const auto middles = (WholeSums::Vec)_mm256_slli_epi32(x, 3);
      run.lower = _mm256_fmadd_ps(as_floats(in_words(sum.lower) - middles), values.scales.lower, run.lower);
      run.upper = _mm256_fmadd_ps(as_floats(in_words(sum.upper) - middles), values.scales.upper, run.upper);
    }
  }
};

void byte_product(const PanelProduct& p) {
  if (p.quantisation.two_levels) return generic::panel_product<ByteStep<0, false, true>>(p);
  if (p.quantisation.group == 0) return generic::panel_product<ByteStep<0, false, false>>(p);
  p.quantisation.has_minimum ? generic::panel_product<ByteStep<32, true, false>>(p)
                             : generic::panel_product<ByteStep<32, false, false>>(p);
}

bool takes_byte_rows(const Quantisation& quantisation) {
  return quantisation.bits == 4 && quantisation.group != 16;
}

/// A row: its numbers, each four in the order 0, 2, 1, 3 in which codes lie, and behind them the sum of every
/// 32.
float round_row(const void* packed, const RowStrides& /*strides*/, int64_t padded_count, void* out,
                float* steps) {
  const auto* x = static_cast<const float*>(packed);
  auto* const numbers = static_cast<int8_t*>(out);
  auto* const sums = reinterpret_cast<int32_t*>(numbers + padded_count);
  double sum = 0;
  for (int64_t begin = 0; begin < padded_count; begin += generic::kInputsOfByteStep) {
    const int64_t end = std::min(begin + generic::kInputsOfByteStep, padded_count);
    const generic::WholeStep step = generic::byte_step(greatest_magnitude(x + begin, end - begin));
    const __m256 steps_in_one = _mm256_set1_ps(step.steps_in_one);
    const auto whole_of = [&](const float* eight) {
      return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(eight), steps_in_one));
    };
    const __m256i order = _mm256_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15, 0, 2, 1, 3,
                                           4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15);
    int64_t of_step = 0;
    for (int64_t i = begin; i < end; i += 32) {
      const __m256i lower = _mm256_packs_epi32(whole_of(x + i), whole_of(x + i + 8));
      const __m256i upper = _mm256_packs_epi32(whole_of(x + i + 16), whole_of(x + i + 24));
      // Fours 0, 2, 4, 6 and 1, 3, 5, 7.
      const __m256i fours = _mm256_packs_epi16(lower, upper);
      const __m256i in_order = _mm256_permutevar8x32_epi32(fours, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
      const __m256i bytes = _mm256_shuffle_epi8(in_order, order);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(numbers + i), bytes);
      const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes);
      __m128i of_four = _mm_add_epi16(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
      of_four = _mm_add_epi16(of_four, _mm_unpackhi_epi64(of_four, of_four));
      const int32_t both = _mm_cvtsi128_si32(_mm_add_epi16(of_four, _mm_srli_epi64(of_four, 32)));
      sums[i / 32] = static_cast<int16_t>(both) + (both >> 16);
      of_step += sums[i / 32];
    }
    steps[begin / generic::kInputsOfByteStep] = step.step;
    sum += double{step.step} * static_cast<double>(of_step);
  }
  return static_cast<float>(sum);
}

}  // namespace
}  // namespace lacuna
