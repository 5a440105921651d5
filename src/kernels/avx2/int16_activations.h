// GEMM of int16 activations (KernelTable::int16_activations) with quantized weights, which are unpacked to
// int16: one instruction does sixteen multiply-adds, compared with eight in f32.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/avx2/vectors.h"
#include "kernels/generic/int16_activations.h"
#include "kernels/generic/quantized.h"
#include "kernels/panels.h"
#include "kernels/table.h"

namespace lacuna {
namespace {  // NOLINT: as in avx512/vectors.h

/// A row of int16 activations is followed by the sum of every 16 of its values, as floats.
inline constexpr int64_t kInputsOfSum = 16;

/// Integer scales and offsets of one group with two levels, which turn 4-bit values of eight outputs into
/// 8-bit ones.
struct ScalesAndOffsets {
  __m256i scale;   // in both halves of an output's word
  __m256i offset;  // in all four bytes

  static ScalesAndOffsets read(const std::byte* scales, const std::byte* offsets) {
    const __m256i in_even_bytes = in_halves(offsets);
    return {in_halves(scales), _mm256_or_si256(in_even_bytes, _mm256_slli_epi32(in_even_bytes, 8))};
  }

  /// Takes words of four 4-bit values, one per byte.
  __m256i values(__m256i nibbles) const {
    // Each 16-bit product computes two 8-bit products, which stay below 256.
    return _mm256_add_epi8(_mm256_mullo_epi16(nibbles, scale), offset);
  }

 private:
  static __m256i in_halves(const std::byte* numbers) {
    const __m256i words = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(numbers)));
    return _mm256_or_si256(words, _mm256_slli_epi32(words, 16));
  }
};

/// Vectors of sixteen outputs.
struct Floats {
  __m256 lower, upper;
};
struct Pairs {
  __m256i lower, upper;
};
struct Int32Sums {
  // Not __m256i, whose elements are 64 bits: g++ would keep the accumulators in memory.
  using Vec [[gnu::vector_size(32)]] = int32_t;
  Vec lower, upper;
};

/// Quantized panels as pairs of int16: 4- or 8-bit values, minus the zero point in formats without minimums,
/// or, with two levels, the 8-bit values.
///   kGroup  inputs per scale; 0: one scale per output channel
template <int kBits, int kGroup, bool kHasMinimum, bool kTwoLevels>
class Int16Panels {
 public:
  static constexpr int64_t kPairsPerWord = 16 / kBits;
  static constexpr int64_t kStep = kGroup == 16 ? 16 : 32;  // inputs per run of equal scales

  /// 4-bit values of inputs 0 to 3, or 4 to 7, of a word of eight, one per byte.
  static __m256i low_nibbles(__m256i words) { return _mm256_and_si256(words, _mm256_set1_epi8(15)); }
  static __m256i high_nibbles(__m256i words) { return low_nibbles(_mm256_srli_epi16(words, 4)); }

  explicit Int16Panels(const PanelProduct& p) : p_(p), layout_(p.quantization, p.depth) {}

  const std::byte* words(int64_t panel, int64_t k) const {
    return generic::begin_of(p_, panel) + layout_.word(0, k);
  }

  /// Calls body(pair, pairs of values) for each pair of the kStep inputs from k on.
  template <typename Body>
  void for_each_pair(int64_t panel, int64_t k, Body&& body) const {
    const auto* from = reinterpret_cast<const __m256i*>(words(panel, k));
    [[maybe_unused]] ScalesAndOffsets lower_levels, upper_levels;
    if constexpr (kTwoLevels) {
      const std::byte* const scales = scales_begin(panel, k);
      const std::byte* const offsets = minimums_begin(panel, k);
      lower_levels = ScalesAndOffsets::read(scales, offsets);
      upper_levels = ScalesAndOffsets::read(scales + Avx2::kLanes, offsets + Avx2::kLanes);
    }
#pragma GCC unroll 1
    for (int64_t pair = 0; pair < kStep / 2; pair += kPairsPerWord, from += 2) {
      const __m256i lower = _mm256_loadu_si256(from);
      const __m256i upper = _mm256_loadu_si256(from + 1);
      if constexpr (kBits == 8) {
        pass_pairs({lower, upper}, pair, body);
      } else {
        Pairs first = {low_nibbles(lower), low_nibbles(upper)};
        Pairs second = {high_nibbles(lower), high_nibbles(upper)};
        if constexpr (kTwoLevels) {
          first = {lower_levels.values(first.lower), upper_levels.values(first.upper)};
          second = {lower_levels.values(second.lower), upper_levels.values(second.upper)};
        }
        pass_pairs(first, pair, body);
        pass_pairs(second, pair + 2, body);
      }
    }
  }

  /// Scales of sixteen outputs for the group of input k.
  Floats scales(int64_t panel, int64_t k) const {
    return floats(scales_begin(panel, k));
  }
  Floats minimums(int64_t panel, int64_t k) const {
    return floats(minimums_begin(panel, k));
  }

  /// First scale of sixteen outputs; that of the next group is group_bytes() later.
  const std::byte* scales_begin(int64_t panel, int64_t k) const {
    return generic::begin_of(p_, panel) + layout_.scale(0, layout_.group_of(k));
  }
  const std::byte* minimums_begin(int64_t panel, int64_t k) const {
    return generic::begin_of(p_, panel) + layout_.minimum(0, layout_.group_of(k));
  }
  int64_t group_bytes() const {
    return layout_.scale(0, 1) - layout_.scale(0, 0);
  }

  Floats floats(const std::byte* from) const {
    if (p_.quantization.wide_scales) {
      const auto* const wide = reinterpret_cast<const float*>(from);
      return {Avx2::load(wide), Avx2::load(wide + Avx2::kLanes)};
    }
    const auto* const narrow = reinterpret_cast<const f16*>(from);
    return {Avx2::load_f16(narrow), Avx2::load_f16(narrow + Avx2::kLanes)};
  }

 private:
  /// Calls body with inputs 0, 1 and with 2, 3, from bytes in the order 0, 2, 1, 3.
  template <typename Body>
  static void pass_pairs(const Pairs& bytes, int64_t pair, Body&& body) {
    const __m256i middle = _mm256_set1_epi16(kGroup == 0 || kHasMinimum ? 0 : 1 << (kBits - 1));
    const auto even = [&](__m256i x) {
      return _mm256_sub_epi16(_mm256_and_si256(x, _mm256_set1_epi16(255)), middle);
    };
    const auto odd = [&](__m256i x) { return _mm256_sub_epi16(_mm256_srli_epi16(x, 8), middle); };
    body(pair, Pairs{even(bytes.lower), even(bytes.upper)});
    body(pair + 1, Pairs{odd(bytes.lower), odd(bytes.upper)});
  }

  const PanelProduct& p_;
  QuantizedLayout layout_;
};

/// Multiplies int16 activations with Int16Panels. The accumulator over one run of inputs is exact; it is then
/// converted, scaled in group formats, and added to the output.
template <int kBits, int kGroup, bool kHasMinimum, bool kTwoLevels>
struct Int16Kernel {
  using Vectors = Avx2;
  using Panels = Int16Panels<kBits, kGroup, kHasMinimum, kTwoLevels>;
  using TileElement = float;  // scales and minimums, and bits of pairs of values
  static constexpr int64_t kBytesPerInput = kPanelWidth * kBits / 8;
  // 6 x 2 accumulators, 2 weights, 1 input and 1 product fill the 16 registers.
  static constexpr int kTileRows = 6;
  // 8 KiB of pairs, and no accumulator overflows 32 bits. Another length would change the bits of formats
  // with one scale per output channel.
  static constexpr int64_t kDepthBlock = 256;
  static constexpr int kPanelsOfFewRows = 1;
  static constexpr int64_t kBytesAhead = 2048;
  static constexpr int64_t kRun = kGroup > 0 ? kGroup : kDepthBlock;

  static const std::byte* place(const PanelProduct& p, int64_t panel, int64_t k) {
    return Panels(p).words(panel, k);
  }

  /// Returns pairs of sixteen outputs, followed by group scales at kScales and group minimums at kMinimums.
  static const float* slice(const PanelProduct& p, int64_t panel, int64_t k, int64_t depth, float* space) {
    const Panels panels(p);
    for (int64_t i = 0; i < depth; i += Panels::kStep) {
      panels.for_each_pair(panel, k + i, [&](int64_t pair, const Pairs& values) {
        auto* const to = reinterpret_cast<__m256i*>(space + (i / 2 + pair) * kPanelWidth);
        _mm256_store_si256(to, values.lower);
        _mm256_store_si256(to + 1, values.upper);
      });
    }
    for (int64_t i = 0; kGroup > 0 && i < depth; i += kRun) {
      store(space + kScales + i / kRun * kPanelWidth, panels.scales(panel, k + i));
      if (kHasMinimum) store(space + kMinimums + i / kRun * kPanelWidth, panels.minimums(panel, k + i));
    }
    return space;
  }

  template <int kPanels, int kRows>
  static void tile(const PanelProduct& p, int64_t first_row, const generic::Slices<Int16Kernel>& slices) {
    static_assert(kPanels == 1);
    const int64_t a_stride = p.a_strides.row;
    const float* const rows = static_cast<const float*>(p.a) + first_row * a_stride;
    const float* row_sums = rows + p.depth / 2 + slices.k / kInputsOfSum;
    const float* const pairs = slices.begin[0];
    const float* third_rows[(kRows + 2) / 3];  // as in generic::product_tile
    for (int i = 0; i < (kRows + 2) / 3; ++i) third_rows[i] = rows + 3 * i * a_stride + slices.k / 2;
    float* const out = p.out + first_row * p.out_stride + slices.panel * kPanelWidth;
    const int64_t out_stride = p.out_stride;
    bool accumulate = slices.k > 0;
    for (int64_t run = 0; run < slices.depth; run += kRun, accumulate = true) {
      const int64_t end = std::min(run + kRun, slices.depth);
      Int32Sums sums[kRows];
#pragma GCC unroll 16
      for (Int32Sums& sum : sums) sum = Int32Sums();
      for (int64_t pair = run / 2; pair < end / 2; ++pair) {
        __builtin_prefetch(slices.next[0] + 2 * pair * kBytesPerInput, 0, 2);
        const auto* const at = reinterpret_cast<const __m256i*>(pairs + pair * kPanelWidth);
        const Pairs values = {_mm256_load_si256(at), _mm256_load_si256(at + 1)};
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) add_products(values, third_rows[r / 3] + r % 3 * a_stride, sums[r]);
        for (auto& row : third_rows) ++row;
      }
      const float* const scales = pairs + kScales + run / kRun * kPanelWidth;
      const float* const minimums = pairs + kMinimums + run / kRun * kPanelWidth;
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        float* const at = out + r * out_stride;
        Floats all = {_mm256_setzero_ps(), _mm256_setzero_ps()};
        if (accumulate) all = load(at);
        store(at, add_run(all, sums[r], load(scales), load(minimums), row_sums + r * a_stride));
      }
      row_sums += kRun / kInputsOfSum;
    }
  }

  static void finish(const PanelProduct& p, int64_t panel, int64_t count, int64_t first_row,
                     int64_t end_row) {
    generic::finish_int16<Avx2>(p, panel, count, first_row, end_row);
  }

  /// Multiplies kRows rows, unpacking each panel in registers, so that the loop is memory-bound.
  template <int kRows>
  static void multiply_few(const PanelProduct& p) {
    const Panels panels(p);
    const auto* const rows = static_cast<const float*>(p.a);
    const int64_t a_stride = p.a_strides.row;
    for (int64_t panel = 0; panel < p.num_panels; ++panel) {
      Floats all[kRows];
#pragma GCC unroll 2
      for (Floats& of_row : all) of_row = {_mm256_setzero_ps(), _mm256_setzero_ps()};
      for (int64_t run = 0; run < p.depth; run += kRun) {
        Int32Sums sums[kRows];
#pragma GCC unroll 2
        for (Int32Sums& sum : sums) sum = Int32Sums();
        for (int64_t k = run; k < std::min(run + kRun, p.depth); k += Panels::kStep) {
          const std::byte* const ahead = panels.words(panel, k) + kBytesAhead;
          for (int64_t i = 0; i < Panels::kStep * kBytesPerInput; i += kCacheLine)
            __builtin_prefetch(ahead + i);
          panels.for_each_pair(panel, k, [&](int64_t pair, const Pairs& values) {
#pragma GCC unroll 2
            for (int r = 0; r < kRows; ++r) add_products(values, rows + r * a_stride + k / 2 + pair, sums[r]);
          });
        }
        Floats scales = {};
        Floats minimums = {};
        if (kGroup > 0) scales = panels.scales(panel, run);
        if (kHasMinimum) minimums = panels.minimums(panel, run);
#pragma GCC unroll 2
        for (int r = 0; r < kRows; ++r) {
          const float* const row_sums = rows + r * a_stride + p.depth / 2 + run / kInputsOfSum;
          all[r] = add_run(all[r], sums[r], scales, minimums, row_sums);
        }
      }
      for (int r = 0; r < kRows; ++r) store(p.out + r * p.out_stride + panel * kPanelWidth, all[r]);
      finish(p, panel, 1, 0, kRows);
    }
  }

 private:
  static constexpr int64_t kScales = kDepthBlock / 2 * kPanelWidth;
  static constexpr int64_t kMinimums = kScales + kDepthBlock / 16 * kPanelWidth;

  static Floats load(const float* from) {
    return {Avx2::load(from), Avx2::load(from + Avx2::kLanes)};
  }
  static void store(float* to, const Floats& x) {
    Avx2::store(to, x.lower);
    Avx2::store(to + Avx2::kLanes, x.upper);
  }

  static void add_products(const Pairs& values, const float* pair, Int32Sums& sum) {
    const __m256i x = _mm256_castps_si256(_mm256_broadcast_ss(pair));
    sum.lower += (Int32Sums::Vec)_mm256_madd_epi16(values.lower, x);
    sum.upper += (Int32Sums::Vec)_mm256_madd_epi16(values.upper, x);
  }

  /// Returns `all` plus the contribution of one run.
  ///   row_sums  sums of the row's integers, from the run's first on
  static Floats add_run(const Floats& all, const Int32Sums& sum, const Floats& scales, const Floats& minimums,
                        const float* row_sums) {
    const __m256 lower = _mm256_cvtepi32_ps((__m256i)sum.lower);
    const __m256 upper = _mm256_cvtepi32_ps((__m256i)sum.upper);
    if constexpr (kGroup == 0) return {_mm256_add_ps(all.lower, lower), _mm256_add_ps(all.upper, upper)};
    const Floats scaled = {_mm256_fmadd_ps(lower, scales.lower, all.lower),
                           _mm256_fmadd_ps(upper, scales.upper, all.upper)};
    if constexpr (!kHasMinimum) return scaled;
    __m256 row_sum = _mm256_broadcast_ss(row_sums);
    if constexpr (kGroup == 2 * kInputsOfSum) {
      row_sum = _mm256_add_ps(row_sum, _mm256_broadcast_ss(row_sums + 1));
    }
    return {_mm256_fmadd_ps(row_sum, minimums.lower, scaled.lower),
            _mm256_fmadd_ps(row_sum, minimums.upper, scaled.upper)};
  }
};

template <typename Step>
void int16_product_by(const PanelProduct& p) {
  if (p.num_rows == 1) return Step::template multiply_few<1>(p);
  if (p.num_rows == 2) return Step::template multiply_few<2>(p);
  generic::panel_product<Step>(p);
}

template <int kBits, int kGroup>
void int16_product_of_groups(const PanelProduct& p) {
  p.quantization.has_minimum ? int16_product_by<Int16Kernel<kBits, kGroup, true, false>>(p)
                             : int16_product_by<Int16Kernel<kBits, kGroup, false, false>>(p);
}

template <int kBits>
void int16_product_of(const PanelProduct& p) {
  if (p.quantization.group == 0) return int16_product_by<Int16Kernel<kBits, 0, false, false>>(p);
  p.quantization.group == 16 ? int16_product_of_groups<kBits, 16>(p) : int16_product_of_groups<kBits, 32>(p);
}

void int16_product(const PanelProduct& p) {
  if (p.quantization.two_levels) return int16_product_by<Int16Kernel<4, 0, false, true>>(p);
  p.quantization.bits == 4 ? int16_product_of<4>(p) : int16_product_of<8>(p);
}

bool takes_int16_activations(const Quantization& quantization) {
  return quantization.bits > 0;
}

/// Largest magnitude of `count` values, a multiple of 8; infinity or NaN if one of them is.
float max_magnitude(const float* x, int64_t count) {
  __m256i largest = _mm256_setzero_si256();
  for (int64_t i = 0; i < count; i += 8) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i));
    largest = _mm256_max_epi32(largest, _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff)));
  }
  const __m128i of_four =
      _mm_max_epi32(_mm256_castsi256_si128(largest), _mm256_extracti128_si256(largest, 1));
  const __m128i of_two = _mm_max_epi32(of_four, _mm_unpackhi_epi64(of_four, of_four));
  return std::bit_cast<float>(_mm_cvtsi128_si32(_mm_max_epi32(of_two, _mm_srli_epi64(of_two, 32))));
}

float quantize_row_to_int16(const void* packed, const RowStrides& /*strides*/, int64_t padded_count,
                            void* out, float* scales) {
  const auto* x = static_cast<const float*>(packed);
  const int exponent = std::bit_cast<int>(max_magnitude(x, padded_count)) >> 23;
  if (exponent == generic::kNonFiniteExponent) {
    std::memset(out, 0, static_cast<size_t>(padded_count) * sizeof(float));
    return *scales = generic::kNaN;
  }
  const generic::IntegerScale scale = generic::int16_scale(exponent);
  const __m256 inverse = _mm256_set1_ps(scale.inverse);
  const auto quantize = [&](const float* eight) {
    const __m256i rounded = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(eight), inverse));
    return _mm256_min_epi32(rounded, _mm256_set1_epi32(generic::kMaxInt16));
  };
  auto* const integers = static_cast<int16_t*>(out);
  auto* const sums = reinterpret_cast<float*>(integers + padded_count);
  double sum = 0;
  for (int64_t i = 0; i < padded_count; i += kInputsOfSum) {
    const __m256i lower = quantize(x + i);
    const __m256i upper = quantize(x + i + 8);
    const __m256i in_order = _mm256_permute4x64_epi64(_mm256_packs_epi32(lower, upper), 0b11'01'10'00);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(integers + i), in_order);
    // Exact: the sum of sixteen integers stays below 2^20.
    const float of_run = Avx2::reduce_add(_mm256_cvtepi32_ps(_mm256_add_epi32(lower, upper)));
    sums[i / kInputsOfSum] = of_run;
    sum += of_run;
  }
  *scales = scale.scale;
  return scale.scale * static_cast<float>(sum);
}

}  // namespace
}  // namespace lacuna
