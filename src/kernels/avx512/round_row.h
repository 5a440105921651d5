// Rows of bf16 become rows of bytes (KernelTable::byte_rows); the greatest of a row, which whole numbers of
// any width ask for.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/generic/byte_rows.h"
#include "kernels/panels.h"
#include "kernels/table.h"

namespace lacuna {
namespace {  // NOLINT: as in vectors.h

/// Of `count` numbers of bf16, a multiple of 32, every 32 of which lie together; infinity or no number if one
/// of them is.
///   step  elements from 32 to the next
float greatest_magnitude(const uint16_t* bits, int64_t step, int64_t count) {
  __m512i greatest = _mm512_setzero_si512();
  for (int64_t i = 0; i < count; i += kBf16DepthStep, bits += step) {
    const __m512i magnitudes = _mm512_and_si512(_mm512_loadu_si512(bits), _mm512_set1_epi16(0x7fff));
    greatest = _mm512_max_epu16(greatest, magnitudes);
  }
  const __m512i of_pairs = _mm512_max_epu32(_mm512_and_si512(greatest, _mm512_set1_epi32(0xffff)),
                                            _mm512_srli_epi32(greatest, 16));
  return std::bit_cast<float>(_mm512_reduce_max_epu32(of_pairs) << 16);
}

/// A row: its numbers, each four in the order 0, 2, 1, 3 in which codes lie.
///   kInTiles  every 64 numbers lie where every 32 of bf16 did, the last filled up with zeros; otherwise
///             numbers lie in one piece, and behind them the sum of every 16
template <bool kInTiles>
float round_row(const void* packed, const RowStrides& strides, int64_t padded_count, void* out,
                float* steps) {
  const auto* const bits = static_cast<const uint16_t*>(packed);
  const int64_t step_bytes = strides.step * int64_t{sizeof(bf16)};
  const auto number = [&](int64_t k) { return static_cast<int8_t*>(out) + k / 64 * step_bytes + k % 64; };
  auto* const sums = reinterpret_cast<int32_t*>(number(0) + padded_count);
  const __m128i order = _mm_set_epi8(15, 13, 14, 12, 11, 9, 10, 8, 7, 5, 6, 4, 3, 1, 2, 0);
  double sum = 0;
  for (int64_t begin = 0; begin < padded_count; begin += generic::kInputsOfByteStep) {
    const int64_t end = std::min(begin + generic::kInputsOfByteStep, padded_count);
    const uint16_t* const first = bits + begin / kBf16DepthStep * strides.step;
    const generic::WholeStep step = generic::byte_step(greatest_magnitude(first, strides.step, end - begin));
    const __m512 steps_in_one = _mm512_set1_ps(step.steps_in_one);
    int64_t of_step = 0;
    for (int64_t i = begin; i < end; i += 16) {
      const uint16_t* const from = bits + i / kBf16DepthStep * strides.step + i % kBf16DepthStep;
      const __m256i sixteen = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
      const __m512 x = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(sixteen), 16));
      const __m512 of_steps = _mm512_mul_ps(x, steps_in_one);
      // What is no number becomes zero: INT_MIN, which it would be otherwise, overflows sums.
      const __mmask16 is_number = _mm512_cmp_ps_mask(of_steps, of_steps, _CMP_ORD_Q);
      const __m512i whole = _mm512_maskz_cvtps_epi32(is_number, of_steps);
      const __m128i bytes = _mm_shuffle_epi8(_mm512_cvtsepi32_epi8(whole), order);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(number(i)), bytes);
      const int32_t of_sixteen = _mm512_reduce_add_epi32(whole);
      if constexpr (!kInTiles) sums[i / 16] = of_sixteen;
      of_step += of_sixteen;
    }
    steps[begin / generic::kInputsOfByteStep] = step.step;
    sum += double{step.step} * static_cast<double>(of_step);
  }
  if (kInTiles && padded_count % 64 != 0)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(number(padded_count)), _mm256_setzero_si256());
  return static_cast<float>(sum);
}

}  // namespace
}  // namespace lacuna
