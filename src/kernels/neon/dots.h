// GEMM tiles of int8 and int16 rows by the dot product of four (SDOT).
#pragma once

#include <arm_neon.h>

#include <cstdint>

#include "kernels/neon/bytes.h"
#include "kernels/neon/vectors.h"

namespace lacuna {
namespace {  // NOLINT: as in avx512/vectors.h

struct Dots {
  /// Writes four inputs of sixteen outputs, then the next four.
  static void arrange(const PanelBytes& first, const PanelBytes& second, int8_t* to) {
    for (const PanelBytes* const four : {&first, &second}) {
      for (const uint8x16_t& bytes : four->of_four) {
        vst1q_s8(to, vreinterpretq_s8_u8(bytes));
        to += sizeof bytes;
      }
    }
  }

  /// sums = products over `inputs` inputs, a multiple of 8, of kRows rows.
  template <int kParts, int kRows>
  [[gnu::always_inline]] static void multiply(const int8_t* weights, int64_t inputs, const int8_t* rows,
                                              int64_t row_bytes, int32x4_t (&sums)[kRows][kVectorsOfPanel]) {
    if constexpr (kParts == 1) {
      multiply_bytes<kRows>(weights, inputs, rows, row_bytes, sums);
    } else {
      multiply_two_parts<kRows>(weights, inputs, rows, row_bytes, sums);
    }
  }

 private:
  ///   x  four bytes of a row
  [[gnu::always_inline]] static int32x4_t add_dots(int32x4_t sum, int8x16_t weights, Neon::Input x) {
    asm("sdot %0.4s, %1.16b, %2.4b[0]" : "+w"(sum) : "w"(weights), "w"(x.value));
    return sum;
  }

  template <int kRows>
  [[gnu::always_inline]] static void multiply_bytes(const int8_t* weights, int64_t inputs, const int8_t* rows,
                                                    int64_t row_bytes,
                                                    int32x4_t (&sums)[kRows][kVectorsOfPanel]) {
#pragma GCC unroll 6
    for (auto& of_row : sums) {
#pragma GCC unroll 4
      for (int32x4_t& sum : of_row) sum = vdupq_n_s32(0);
    }
    const int8_t* third_rows[(kRows + 2) / 3];  // as in generic::product_tile
    for (int i = 0; i < (kRows + 2) / 3; ++i) third_rows[i] = rows + 3 * i * row_bytes;
    for (int64_t i = 0; i < inputs; i += 4, weights += 4 * kPanelWidth) {
      int8x16_t of_four[kVectorsOfPanel];
#pragma GCC unroll 4
      for (int v = 0; v < kVectorsOfPanel; ++v) of_four[v] = vld1q_s8(weights + v * 16);
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r) {
        const Neon::Input x = {load_as<float>(third_rows[r / 3] + r % 3 * row_bytes)};
#pragma GCC unroll 4
        for (int v = 0; v < kVectorsOfPanel; ++v) sums[r][v] = add_dots(sums[r][v], of_four[v], x);
      }
      for (auto& row : third_rows) row += 4;
    }
  }

  template <int kRows>
  [[gnu::always_inline]] static void multiply_two_parts(const int8_t* weights, int64_t inputs,
                                                        const int8_t* rows, int64_t row_bytes,
                                                        int32x4_t (&sums)[kRows][kVectorsOfPanel]) {
    int32x4_t high[kRows][kVectorsOfPanel];
#pragma GCC unroll 3
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectorsOfPanel; ++v) high[r][v] = sums[r][v] = vdupq_n_s32(0);
    }
    for (int64_t i = 0; i < inputs; i += 8, weights += 8 * kPanelWidth, rows += 16) {
      int8x16_t x[kRows];  // high bytes of inputs 0 to 3 and 4 to 7, then low bytes
#pragma GCC unroll 3
      for (int r = 0; r < kRows; ++r) x[r] = vld1q_s8(rows + r * row_bytes);
#pragma GCC unroll 4
      for (int v = 0; v < kVectorsOfPanel; ++v) {
        const int8x16_t first = vld1q_s8(weights + v * 16);
        const int8x16_t second = vld1q_s8(weights + 4 * kPanelWidth + v * 16);
#pragma GCC unroll 3
        for (int r = 0; r < kRows; ++r) {
          high[r][v] = vdotq_laneq_s32(high[r][v], first, x[r], 0);
          sums[r][v] = vdotq_laneq_s32(sums[r][v], first, x[r], 2);
        }
#pragma GCC unroll 3
        for (int r = 0; r < kRows; ++r) {
          high[r][v] = vdotq_laneq_s32(high[r][v], second, x[r], 1);
          sums[r][v] = vdotq_laneq_s32(sums[r][v], second, x[r], 3);
        }
      }
    }
#pragma GCC unroll 3
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectorsOfPanel; ++v)
        sums[r][v] = vaddq_s32(sums[r][v], vshlq_n_s32(high[r][v], 8));
    }
  }
};

}  // namespace
}  // namespace lacuna
