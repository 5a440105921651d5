// int8 activations (KernelTable::int8_activations), for every instruction set.
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/generic/int16_activations.h"

namespace lacuna::generic {

/// Inputs that share a scale, counted from the row's first. Fewer would cost more scaling of accumulators
/// than int8 gains; an outlier makes only these values coarse.
inline constexpr int64_t kInt8Group = 256;

/// Scale of inputs with this largest magnitude. Always inlined, as QuantisedLayout.
[[gnu::always_inline]] inline IntegerScale int8_scale(float greatest) {
  constexpr float kGreatestByte = 127;
  // As for int16, far above where the scale or its reciprocal becomes subnormal.
  constexpr float kLeast = 0x1p-112F;
  if (greatest < kLeast) return {0, 0};
  // Infinity or NaN: every output becomes NaN.
  if (!(greatest <= std::numeric_limits<float>::max())) return {kNaN, 0};
  return {greatest / kGreatestByte, kGreatestByte / greatest};
}

}  // namespace lacuna::generic
