// Reductions over a row of logits by one block. Included by kernels only.
#pragma once

#include <cstdint>

#include "backend/cuda/simt/simt.h"

namespace lacuna::cuda {

inline constexpr uint32_t kRowThreads = 256;
inline constexpr uint32_t kRowWarps = kRowThreads / 32;
inline constexpr int32_t kNoToken = INT32_MAX;

LACUNA_DEVICE float infinity() {
  return simt::as_float(0x7f800000U);
}
LACUNA_DEVICE bool is_finite(float x) {
  return (simt::as_bits(x) & 0x7f800000U) != 0x7f800000U;
}
LACUNA_DEVICE bool is_finite(double x) {
  return x - x == 0;
}

/// The largest value and its lowest token. NaNs are ignored.
template <typename T>
struct Best {
  T value;
  int32_t token;

  LACUNA_DEVICE bool is_before(T other, int32_t other_token) const {
    return value > other || (value == other && token < other_token);
  }
  LACUNA_DEVICE void add(T other, int32_t other_token) {
    if (Best{other, other_token}.is_before(value, token)) *this = {other, other_token};
  }
};

/// Reduces over the lanes of a warp; all lanes get the result.
template <typename T>
LACUNA_DEVICE Best<T> warp_best(Best<T> mine) {
  for (uint32_t distance = 16; distance > 0; distance /= 2) {
    const T value = simt::shuffle_xor(mine.value, distance);
    const int32_t token = simt::shuffle_xor(mine.token, distance);
    mine.add(value, token);
  }
  return mine;
}

template <typename T>
struct BestParts {
  T values[kRowWarps];
  int32_t tokens[kRowWarps];
};

template <typename T>
LACUNA_DEVICE Best<T> block_best(Best<T> mine, BestParts<T>& parts) {
  mine = warp_best(mine);
  if (simt::lane_index() == 0) {
    parts.values[simt::warp_index()] = mine.value;
    parts.tokens[simt::warp_index()] = mine.token;
  }
  simt::sync_threads();
  for (uint32_t warp = 0; warp < kRowWarps; ++warp) mine.add(parts.values[warp], parts.tokens[warp]);
  simt::sync_threads();
  return mine;
}

template <typename T>
LACUNA_DEVICE T block_total(T value, T* parts) {
  value = simt::block_sum(value, parts);
  simt::sync_threads();
  return value;
}

}  // namespace lacuna::cuda
