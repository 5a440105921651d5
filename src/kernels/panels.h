// The layout that weights, keys and values share.
//
// A matrix W of N outputs by K inputs is cut into panels of 16 outputs. Within a panel the 16 outputs of one
// input lie side by side, so that a product walks memory in one direction and fills whole vectors:
//
//   f32   [N/16][K][16]         element (n, k) at  panel * K * 16 + k * 16 + lane
//   bf16  [N/16][K/2][16][2]    two neighbouring inputs of one output share a 32-bit word, as the dot-product
//                               instructions of AVX-512 and AMX want them; AVX2 splits the pair by a shift
//
// Keys are such a matrix with N = cells and K = head_dim; values one with N = head_dim and K = cells. All
// padding is zero.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace lacuna {

inline constexpr int64_t kPanelWidth = 16;

/// Inputs are padded to this many for bf16 (one AMX tile holds 32) and left as they are for f32.
inline constexpr int64_t kBf16DepthStep = 32;

constexpr int64_t round_up(int64_t value, int64_t step) {
  return (value + step - 1) / step * step;
}

constexpr int64_t padded_depth(DType dtype, int64_t depth) {
  return dtype == DType::kBF16 ? round_up(depth, kBf16DepthStep) : depth;
}

constexpr int64_t num_panels(int64_t outputs) {
  return (outputs + kPanelWidth - 1) / kPanelWidth;
}

/// Offset of element (lane, k) within its panel, in elements.
template <typename Element>
constexpr int64_t panel_offset(int64_t lane, int64_t k) {
  if constexpr (sizeof(Element) == 2) return (k / 2) * (2 * kPanelWidth) + 2 * lane + k % 2;
  return k * kPanelWidth + lane;
}

/// A packed matrix that somebody else owns.
struct PanelView {
  const void* data = nullptr;  ///< float or bf16, aligned to 64 bytes
  DType dtype = DType::kF32;   ///< kF32 or kBF16
  int64_t outputs = 0;         ///< N
  int64_t inputs = 0;          ///< K, without padding
  int64_t panel_stride = 0;    ///< elements from one panel to the next, >= padded_depth * 16

  const void* panel(int64_t index) const {
    return static_cast<const char*>(data) + index * panel_stride * static_cast<int64_t>(size_of(dtype));
  }
};

}  // namespace lacuna
