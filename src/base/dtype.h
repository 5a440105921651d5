// Element types of weights, activations and K/V cells.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lacuna {

enum class DType : uint8_t { kF32, kF16, kBF16 };

constexpr size_t size_of(DType dtype) {
  return dtype == DType::kF32 ? 4 : 2;
}

constexpr std::string_view name_of(DType dtype) {
  return dtype == DType::kF32 ? "f32" : dtype == DType::kF16 ? "f16" : "bf16";
}

/// The upper half of an f32. Conversion rounds to nearest even; NaN stays NaN.
struct bf16 {
  uint16_t bits = 0;

  bf16() = default;
  explicit bf16(float value) {
    const auto word = std::bit_cast<uint32_t>(value);
    const bool is_nan = (word & 0x7fffffffU) > 0x7f800000U;
    bits = is_nan ? static_cast<uint16_t>((word >> 16) | 0x40U)
                  : static_cast<uint16_t>((word + 0x7fffU + ((word >> 16) & 1U)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

/// IEEE binary16. Only converted to f32: checkpoints may use it, computation never does.
struct f16 {
  uint16_t bits = 0;

  explicit operator float() const {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
    const uint32_t exponent = (bits >> 10) & 0x1fU;
    const uint32_t mantissa = bits & 0x3ffU;
    if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24 is exact in f32
      const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
      return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
    }
    const uint32_t widened = exponent == 31 ? 0xffU : exponent + 112;
    return std::bit_cast<float>(sign | (widened << 23) | (mantissa << 13));
  }
};

static_assert(sizeof(bf16) == 2 && sizeof(f16) == 2);

}  // namespace lacuna
