// What rows become that are split into whole numbers (KernelTable::split_row_bf16), on every instruction set.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "kernels/table.h"

namespace lacuna::generic {

/// The most that two bytes with a sign can be; the least is below what a row ever holds.
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

/// Of a row that holds infinity or NaN: every output becomes NaN by the step.
inline constexpr SplitRow kNoNumberRow = {std::numeric_limits<float>::quiet_NaN(),
                                          std::numeric_limits<float>::quiet_NaN()};

}  // namespace lacuna::generic
