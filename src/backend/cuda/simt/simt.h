// Functions that kernels may call: instructions with nvcc, calls of the simulator with a host compiler. A
// kernel is `LACUNA_KERNEL name(Arguments arguments)` with one trivially copyable struct of arguments.
#pragma once

#ifdef __CUDACC__
#include "backend/cuda/simt/simt_device.h"  // IWYU pragma: export
#else
#include "backend/cuda/simt/simt_host.h"  // IWYU pragma: export
#endif

namespace lacuna::simt {

/// Sum over the lanes of a warp, returned to all lanes; added in a fixed tree.
template <typename T>
LACUNA_DEVICE T warp_sum(T value) {
  for (uint32_t distance = 16; distance > 0; distance /= 2) value += shuffle_xor(value, distance);
  return value;
}

LACUNA_DEVICE float warp_max(float value) {
  for (uint32_t distance = 16; distance > 0; distance /= 2) {
    const float other = shuffle_xor(value, distance);
    value = other > value ? other : value;
  }
  return value;
}

/// Sum over the block's threads, returned to all of them.
///   parts  shared memory, one number per warp; reusable after the next barrier
template <typename T>
LACUNA_DEVICE T block_sum(T value, T* parts) {
  value = warp_sum(value);
  if (lane_index() == 0) parts[warp_index()] = value;
  sync_threads();
  T sum = 0;
  for (uint32_t warp = 0; warp < num_threads() / 32; ++warp) sum += parts[warp];
  return sum;
}

LACUNA_DEVICE float from_bf16(uint16_t bits) {
  return as_float(uint32_t{bits} << 16);
}
/// Two e4m3 floats that are not NaN, the first in the lower byte, in bf16, which holds all of them.
LACUNA_DEVICE uint32_t bf16_from_e4m3(uint32_t codes) {
  const uint32_t apart = spread_bytes(codes);
  // Signs, exponents and mantissas, shifted to their bf16 positions, are 2^-120 times the values.
  const uint32_t scaled = (apart << 8 & 0x80008000U) | (apart << 4 & 0x07f007f0U);
  return fma_bf16(scaled, 0x7b807b80U, 0x80008000U);  // 2^120, -0
}
/// Two 4-bit codes, the first in the lower half of a byte, minus 8, in bf16.
LACUNA_DEVICE uint32_t bf16_from_int4(uint32_t codes) {
  const uint32_t above_128 = (codes * 0x1001U & 0x000f000fU) | 0x43004300U;
  return fma_bf16(above_128, 0x3f803f80U, 0xc308c308U);  // 1, -136
}
LACUNA_DEVICE uint16_t to_bf16(float value) {
  return static_cast<uint16_t>(pack_bf16(value, 0) & 0xffffU);
}

}  // namespace lacuna::simt
