// Products of two rows and two outputs at once, by the matrix instructions of ARMv8.6: bytes (SMMLA), eight
// inputs at a time, and bf16 (BFMMLA), four at a time. Both read 8 bytes of each row and of each output.
#pragma once

#include <arm_neon.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/neon/bytes.h"
#include "kernels/neon/vectors.h"

namespace lacuna {
namespace {  // NOLINT: as in avx512/vectors.h

/// Number of vectors for a panel's outputs, two outputs per vector.
inline constexpr int kPairsOfOutputs = kPanelWidth / 2;

/// Writes vectors of two outputs; each output has its word of `first`, then its word of `second`.
inline void arrange_pairs_of_outputs(const uint32x4_t (&first)[kVectorsOfPanel],
                                     const uint32x4_t (&second)[kVectorsOfPanel], void* to) {
  auto* at = static_cast<std::byte*>(to);
  for (int v = 0; v < kVectorsOfPanel; ++v) {
    const uint32x4_t both[] = {vzip1q_u32(first[v], second[v]), vzip2q_u32(first[v], second[v])};
    std::memcpy(at, both, sizeof both);
    at += sizeof both;
  }
}

inline int32x4_t add_matrix_product(int32x4_t sum, uint8x16_t x, uint8x16_t weights) {
  return vmmlaq_s32(sum, vreinterpretq_s8_u8(x), vreinterpretq_s8_u8(weights));
}
inline float32x4_t add_matrix_product(float32x4_t sum, uint8x16_t x, uint8x16_t weights) {
  return vbfmmlaq_f32(sum, vreinterpretq_bf16_u8(x), vreinterpretq_bf16_u8(weights));
}

/// Adds the products of kPairs pairs of rows to their accumulators.
///   weights  [steps] of 16 outputs, as arrange_pairs_of_outputs() wrote them
///   row      row(step, i) is the vector of the i-th pair: 8 bytes of each row
///   sums     two outputs of the first row, then of the second, in each vector
template <int kPairs, typename Sum, typename Row>
[[gnu::always_inline]] inline void add_matrix_products(const void* weights, int64_t steps, const Row& row,
                                                       Sum (&sums)[kPairs][kPairsOfOutputs]) {
  const auto* from = static_cast<const std::byte*>(weights);
  for (int64_t step = 0; step < steps; ++step) {
    uint8x16_t x[kPairs];
#pragma GCC unroll 3
    for (int i = 0; i < kPairs; ++i) x[i] = row(step, i);
#pragma GCC unroll 8
    for (int output = 0; output < kPairsOfOutputs; ++output) {
      const auto of_output = load_as<uint8x16_t>(from);
      from += sizeof of_output;
#pragma GCC unroll 3
      for (int i = 0; i < kPairs; ++i) sums[i][output] = add_matrix_product(sums[i][output], x[i], of_output);
    }
  }
}

/// Addresses of the pairs of kRows rows; with an odd number, the last row is paired with itself.
template <int kRows>
class PairsOfRows {
 public:
  static constexpr int kPairs = (kRows + 1) / 2;

  PairsOfRows(const void* rows, int64_t row_bytes) {
    for (int r = 0; r < 2 * kPairs; ++r)
      rows_[r] = static_cast<const std::byte*>(rows) + std::min(r, kRows - 1) * row_bytes;
  }
  uint8x16_t operator()(int64_t step, int i) const {
    return vcombine_u8(load_as<uint8x8_t>(rows_[2 * i] + 8 * step),
                       load_as<uint8x8_t>(rows_[2 * i + 1] + 8 * step));
  }

 private:
  const std::byte* rows_[2 * kPairs];
};

// From two vectors of two rows by two outputs: four outputs of the first row, or of the second.
template <typename Sum>
Sum of_first_row(Sum a, Sum b) {
  return __builtin_shufflevector(a, b, 0, 1, 4, 5);
}
template <typename Sum>
Sum of_second_row(Sum a, Sum b) {
  return __builtin_shufflevector(a, b, 2, 3, 6, 7);
}

struct MatrixDots {
  static void arrange(const PanelBytes& first, const PanelBytes& second, int8_t* to) {
    uint32x4_t words[2][kVectorsOfPanel];
    for (int v = 0; v < kVectorsOfPanel; ++v) {
      words[0][v] = vreinterpretq_u32_u8(first.of_four[v]);
      words[1][v] = vreinterpretq_u32_u8(second.of_four[v]);
    }
    arrange_pairs_of_outputs(words[0], words[1], to);
  }

  /// sums = products over `inputs` inputs, a multiple of 8, of kRows rows. The two parts of an int16 row are
  /// a pair of rows.
  template <int kParts, int kRows>
  [[gnu::always_inline]] static void multiply(const int8_t* weights, int64_t inputs, const int8_t* rows,
                                              int64_t row_bytes, int32x4_t (&sums)[kRows][kVectorsOfPanel]) {
    constexpr int kPairs = kParts == 2 ? kRows : PairsOfRows<kRows>::kPairs;
    int32x4_t pairs[kPairs][kPairsOfOutputs];
#pragma GCC unroll 3
    for (auto& pair : pairs) {
#pragma GCC unroll 8
      for (int32x4_t& sum : pair) sum = vdupq_n_s32(0);
    }
    if constexpr (kParts == 2) {
      const auto both_parts = [&](int64_t step, int r) {
        return load_as<uint8x16_t>(rows + r * row_bytes + 16 * step);
      };
      add_matrix_products<kPairs>(weights, inputs / 8, both_parts, pairs);
    } else {
      add_matrix_products<kPairs>(weights, inputs / 8, PairsOfRows<kRows>(rows, row_bytes), pairs);
    }
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectorsOfPanel; ++v) {
        const auto& of_pair = pairs[kParts == 2 ? r : r / 2];
        const int32x4_t first = of_first_row(of_pair[2 * v], of_pair[2 * v + 1]);
        const int32x4_t second = of_second_row(of_pair[2 * v], of_pair[2 * v + 1]);
        if constexpr (kParts == 2) {
          sums[r][v] = vaddq_s32(vshlq_n_s32(first, 8), second);
        } else {
          sums[r][v] = r % 2 == 0 ? first : second;
        }
      }
    }
  }
};

}  // namespace
}  // namespace lacuna
