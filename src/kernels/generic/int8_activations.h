// int8 activations (KernelTable::int8_activations), for every instruction set.
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/generic/int16_activations.h"

namespace lacuna::generic {

/// Inputs per scale. Smaller groups would cost more scaling of accumulators than int8 gains; in larger ones,
/// an outlier would reduce the precision of more values.
inline constexpr int64_t kInt8Group = 256;

/// Scale of inputs with this largest magnitude. Always inlined, as QuantizedLayout.
[[gnu::always_inline]] inline IntegerScale int8_scale(float largest) {
  constexpr float kMaxInt8 = 127;
  // Far above values with a subnormal scale or an infinite reciprocal, as for int16.
  constexpr float kMin = 0x1p-112F;
  if (largest < kMin) return {0, 0};
  // Infinity or NaN: every output becomes NaN.
  if (!(largest <= std::numeric_limits<float>::max())) return {kNaN, 0};
  return {largest / kMaxInt8, kMaxInt8 / largest};
}

}  // namespace lacuna::generic
