// Quantizes packed rows to int8 and int16 (KernelTable::int8_activations, int16_activations).
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "kernels/generic/int16_activations.h"
#include "kernels/generic/int8_activations.h"
#include "kernels/panels.h"
#include "kernels/table.h"

namespace lacuna {
namespace {  // NOLINT: as in vectors.h

/// Sixteen values of a packed row, as floats.
inline __m512 load_row(const bf16* from) {
  const __m256i sixteen = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(sixteen), 16));
}
inline __m512 load_row(const float* from) {
  return _mm512_loadu_ps(from);
}

/// Largest magnitude of `count` values of a packed row, a multiple of 32, every 32 of which are contiguous;
/// infinity or NaN if one of them is.
///   stride  elements from 32 values to the next 32
inline float max_magnitude(const bf16* row, int64_t stride, int64_t count) {
  __m512i largest = _mm512_setzero_si512();
  for (int64_t i = 0; i < count; i += kBf16DepthStep, row += stride) {
    const __m512i magnitudes = _mm512_and_si512(_mm512_loadu_si512(row), _mm512_set1_epi16(0x7fff));
    largest = _mm512_max_epu16(largest, magnitudes);
  }
  const __m512i of_pairs =
      _mm512_max_epu32(_mm512_and_si512(largest, _mm512_set1_epi32(0xffff)), _mm512_srli_epi32(largest, 16));
  return std::bit_cast<float>(_mm512_reduce_max_epu32(of_pairs) << 16);
}
inline float max_magnitude(const float* row, int64_t stride, int64_t count) {
  __m512i largest = _mm512_setzero_si512();
  for (int64_t i = 0; i < count; i += kBf16DepthStep, row += stride) {
    for (const float* half : {row, row + 16})
      largest = _mm512_max_epu32(largest,
                                 _mm512_and_si512(_mm512_loadu_si512(half), _mm512_set1_epi32(0x7fffffff)));
  }
  return std::bit_cast<float>(_mm512_reduce_max_epu32(largest));
}

/// Quantizes a row to int8. Each four values are in the order 0, 2, 1, 3, as in weights.
///   Row       element type of the packed row: bf16, or float with bf16 values
///   kInTiles  true (bf16 only): every 64 values replace 32 bf16 values, padded with zeros; false: the row is
///             contiguous and followed by minus the sums of every 16 values
template <typename Row, bool kInTiles>
float quantize_to_int8(const void* packed, const RowStrides& strides, int64_t padded_count, void* out,
                       float* scales) {
  const auto* const row = static_cast<const Row*>(packed);
  const int64_t k_step_bytes = strides.k_step * int64_t{sizeof(bf16)};
  const auto number = [&](int64_t k) { return static_cast<int8_t*>(out) + k / 64 * k_step_bytes + k % 64; };
  auto* const sums = reinterpret_cast<int32_t*>(number(0) + padded_count);
  const __m128i order = _mm_set_epi8(15, 13, 14, 12, 11, 9, 10, 8, 7, 5, 6, 4, 3, 1, 2, 0);
  double sum = 0;
  for (int64_t begin = 0; begin < padded_count; begin += generic::kInt8Group) {
    const int64_t end = std::min(begin + generic::kInt8Group, padded_count);
    const Row* const first = row + begin / kBf16DepthStep * strides.k_step;
    const generic::IntegerScale scale =
        generic::int8_scale(max_magnitude(first, strides.k_step, end - begin));
    const __m512 inverse = _mm512_set1_ps(scale.inverse);
    int64_t group_sum = 0;
    for (int64_t i = begin; i < end; i += 16) {
      const __m512 x = load_row(row + i / kBf16DepthStep * strides.k_step + i % kBf16DepthStep);
      const __m512 scaled = _mm512_mul_ps(x, inverse);
      // Replaces NaN by zero: the conversion yields INT_MIN, which would overflow accumulators.
      const __mmask16 is_number = _mm512_cmp_ps_mask(scaled, scaled, _CMP_ORD_Q);
      const __m512i integers = _mm512_maskz_cvtps_epi32(is_number, scaled);
      const __m128i bytes = _mm_shuffle_epi8(_mm512_cvtsepi32_epi8(integers), order);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(number(i)), bytes);
      const int32_t of_sixteen = _mm512_reduce_add_epi32(integers);
      if constexpr (!kInTiles) sums[i / 16] = -of_sixteen;
      group_sum += of_sixteen;
    }
    scales[begin / generic::kInt8Group] = scale.scale;
    sum += double{scale.scale} * static_cast<double>(group_sum);
  }
  if (kInTiles && padded_count % 64 != 0)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(number(padded_count)), _mm256_setzero_si256());
  return static_cast<float>(sum);
}

/// Each integer is 256 * high + low, both signed bytes. Four inputs are stored as four high bytes, then four
/// low bytes, both in the order 0, 2, 1, 3, as in weights.
template <typename Row>
float quantize_to_int16(const void* packed, const RowStrides& strides, int64_t padded_count, void* out,
                        float* scales) {
  const auto* const row = static_cast<const Row*>(packed);
  const int exponent = std::bit_cast<int>(max_magnitude(row, strides.k_step, padded_count)) >> 23;
  if (exponent == generic::kNonFiniteExponent) {
    std::memset(out, 0, static_cast<size_t>(padded_count) * sizeof(bf16));
    return *scales = generic::kNaN;
  }
  const generic::IntegerScale scale = generic::int16_scale(exponent);
  const __m512 inverse = _mm512_set1_ps(scale.inverse);
  const __m512i most = _mm512_set1_epi32(generic::kMaxInt16);
  const __m128i order = _mm_set_epi8(15, 13, 14, 12, 11, 9, 10, 8, 7, 5, 6, 4, 3, 1, 2, 0);
  auto* parts = static_cast<__m128i*>(out);
  __m512i sums = _mm512_setzero_si512();
  for (int64_t i = 0; i < padded_count; i += 16) {
    const __m512i integers =
        _mm512_min_epi32(_mm512_cvtps_epi32(_mm512_mul_ps(load_row(row + i), inverse)), most);
    const __m512i rounded_up = _mm512_add_epi32(integers, _mm512_set1_epi32(128));  // the low byte is signed
    const __m128i high = _mm_shuffle_epi8(_mm512_cvtepi32_epi8(_mm512_srai_epi32(rounded_up, 8)), order);
    const __m128i low = _mm_shuffle_epi8(_mm512_cvtepi32_epi8(integers), order);
    _mm_storeu_si128(parts++, _mm_unpacklo_epi32(high, low));
    _mm_storeu_si128(parts++, _mm_unpackhi_epi32(high, low));
    for (const __m256i half : {_mm512_castsi512_si256(integers), _mm512_extracti64x4_epi64(integers, 1)})
      sums = _mm512_add_epi64(sums, _mm512_cvtepi32_epi64(half));
  }
  *scales = scale.scale;
  return scale.scale * static_cast<float>(_mm512_reduce_add_epi64(sums));
}

}  // namespace
}  // namespace lacuna
