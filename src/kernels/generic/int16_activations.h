// int16 activations (KernelTable::int16_activations) and the scaling of their accumulators, for every
// instruction set.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "kernels/generic/quantized.h"
#include "kernels/table.h"

namespace lacuna::generic {

/// Largest integer 256 * high + low of two signed bytes. Kernels with 16-bit integers use the same limit, so
/// that all instruction sets quantize rows identically.
inline constexpr int32_t kMaxInt16 = 127 * 256 + 127;

/// Scale of a row's integers.
struct IntegerScale {
  float scale;
  float inverse;
};

/// Biased exponent of infinity and NaN.
inline constexpr int kNonFiniteExponent = 255;

/// Power-of-two scale of a row, given the biased exponent of its (finite) maximum. Always inlined, as
/// QuantizedLayout.
[[gnu::always_inline]] inline IntegerScale int16_scale(int exponent) {
  // The scaled maximum has 15 integer bits, unless the scale would be subnormal.
  const int scale_exponent = std::max(exponent - 14, 1);
  return {std::bit_cast<float>(scale_exponent << 23), std::bit_cast<float>((254 - scale_exponent) << 23)};
}

/// Scale and sum of a row that holds infinity or NaN, so that every output becomes NaN.
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// Multiplies the accumulators of rows [first_row, end_row) and `count` panels by the row's scale, then by
/// the output channel's scale if the format has one.
template <typename Isa>
void finish_int16(const PanelProduct& p, int64_t first_panel, int64_t count, int64_t first_row,
                  int64_t end_row) {
  for (int64_t row = first_row; row < end_row; ++row) {
    const auto scale = Isa::broadcast(p.row_scales[row]);
    float* const sums = p.out + row * p.out_stride + first_panel * kPanelWidth;
    for (int64_t i = 0; i < count * kPanelWidth; i += Isa::kLanes) {
      Isa::store(sums + i, Isa::multiply(Isa::load(sums + i), scale));
    }
  }
  scale_sums<Isa>(p, first_panel, count, first_row, end_row);
}

}  // namespace lacuna::generic
