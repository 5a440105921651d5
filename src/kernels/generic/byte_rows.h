// What rows become whose numbers are rounded to bytes (KernelTable::byte_rows), on every instruction set.
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/generic/split_rows.h"

namespace lacuna::generic {

/// Inputs that share a step, counted from the row's begin. As few as sums of products can be scaled for
/// without losing what bytes gain; an outlier makes none but these coarse.
inline constexpr int64_t kInputsOfByteStep = 256;

/// Of inputs whose greatest magnitude is given. Always inlined, as QuantisedLayout.
[[gnu::always_inline]] inline WholeStep byte_step(float greatest) {
  constexpr float kGreatestByte = 127;
  // As for split rows, far above where steps or their reciprocals leave the normal numbers.
  constexpr float kLeast = 0x1p-112F;
  if (greatest < kLeast) return {0, 0};
  // Infinity or no number: so is then every output.
  if (!(greatest <= std::numeric_limits<float>::max())) return {kNoNumber, 0};
  return {greatest / kGreatestByte, kGreatestByte / greatest};
}

}  // namespace lacuna::generic
