// The published rule by which Hopper's tensor cores add products of bf16 (microsoft/MMA-Sim, arXiv
// 2511.10909): sixteen products and the accumulator are aligned to their largest exponent, truncated 25 bits
// below it, added exactly, and truncated to f32.
#pragma once

#include <cstdint>

namespace lacuna::cuda {

inline constexpr int kProductsAtOnce = 16;

/// c + a[0] b[0] + ... + a[15] b[15] by this rule, for finite values; a and b are bf16 bits.
float hopper_sum(float c, const uint16_t* a, const uint16_t* b);

}  // namespace lacuna::cuda
