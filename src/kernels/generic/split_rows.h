// What split rows (KernelTable::split_rows) and their products have in common on every instruction set.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "kernels/generic/quantised.h"
#include "kernels/table.h"

namespace lacuna::generic {

/// The greatest number that two bytes, each with a sign, make up. Where a whole number stays one of 16 bits,
/// more would fit, but rows are split alike everywhere.
inline constexpr int32_t kGreatestWhole = 127 * 256 + 127;

/// The unit of a row's whole numbers.
struct WholeStep {
  float step;
  float steps_in_one;
};

/// The exponent of infinity and of what is no number.
inline constexpr int kNoNumberExponent = 255;

/// Of a row whose greatest number has this biased exponent, which is not kNoNumberExponent. Always inlined,
/// as QuantisedLayout.
[[gnu::always_inline]] inline WholeStep whole_step(int exponent) {
  // The greatest has 15 digits before the point, unless a step would be no normal number.
  const int of_step = std::max(exponent - 14, 1);
  return {std::bit_cast<float>(of_step << 23), std::bit_cast<float>((254 - of_step) << 23)};
}

/// The step, and the sum, of a row that holds infinity or NaN: every output becomes NaN by it.
inline constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN();

/// Turns sums of rows [first_row, end_row) by `count` panels from whole numbers into numbers, and scales them
/// where the quantisation does.
template <typename Isa>
void finish_split(const PanelProduct& p, int64_t first_panel, int64_t count, int64_t first_row,
                  int64_t end_row) {
  for (int64_t row = first_row; row < end_row; ++row) {
    const auto step = Isa::broadcast(p.row_steps[row]);
    float* const sums = p.out + row * p.out_stride + first_panel * kPanelWidth;
    for (int64_t i = 0; i < count * kPanelWidth; i += Isa::kLanes) {
      Isa::store(sums + i, Isa::multiply(Isa::load(sums + i), step));
    }
  }
  scale_sums<Isa>(p, first_panel, count, first_row, end_row);
}

}  // namespace lacuna::generic
