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
/// Value of an e4m3 float that is not NaN; exact in bf16.
LACUNA_DEVICE float from_e4m3(uint8_t code) {
  // Exponent and mantissa, shifted to their f32 positions, are 2^-120 times the value.
  return as_float((code & 0x80U) << 24 | (code & 0x7fU) << 20) * 0x1p120F;
}
LACUNA_DEVICE uint16_t to_bf16(float value) {
  return static_cast<uint16_t>(pack_bf16(value, 0) & 0xffffU);
}

}  // namespace lacuna::simt
