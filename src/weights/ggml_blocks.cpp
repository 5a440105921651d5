#include "weights/ggml_blocks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "weights/ggml_grids.h"
#include "weights/tensor_files.h"

namespace lacuna {
namespace {

// Each type's `read_` function unpacks one block into quantized values, scales and minimums.

constexpr size_t kSmall = 32;      // elements of a plain block
constexpr size_t kSuper = 256;     // elements of a K-quant block
constexpr size_t kGgmlGroup = 32;  // elements per scale in memory, if not 16

float half_at(const std::byte* from) {
  f16 value;
  std::memcpy(&value, from, sizeof value);
  return static_cast<float>(value);
}

uint32_t byte_at(const std::byte* from, size_t index) {
  return std::to_integer<uint32_t>(from[index]);
}

uint32_t u16_at(const std::byte* from, size_t index) {
  return byte_at(from, 2 * index) | byte_at(from, 2 * index + 1) << 8U;
}

uint32_t word_at(const std::byte* from) {
  uint32_t word = 0;
  std::memcpy(&word, from, sizeof word);
  return word;
}

struct BlockOut {
  uint8_t* codes;
  float* scales;
  float* minimums;  // null if the type has none
};

/// Quantized value of a signed number for 8 bits without minimums.
uint8_t around_128(int value) {
  return static_cast<uint8_t>(128 + value);
}

/// Element j is in the low nibble of byte j, element j + 16 in the high one.
uint32_t nibble(const std::byte* halves, size_t j) {
  return j < kSmall / 2 ? byte_at(halves, j) & 15U : byte_at(halves, j - kSmall / 2) >> 4U;
}

/// Nibble of an element; each byte holds two consecutive elements, the first in the low nibble.
uint32_t next_nibble(const std::byte* nibbles, size_t index) {
  return byte_at(nibbles, index / 2) >> (4 * (index % 2)) & 15U;
}

void read_q8_0(const std::byte* block, const BlockOut& out) {
  out.scales[0] = half_at(block);
  // Converts two's complement to values around 128.
  for (size_t j = 0; j < kSmall; ++j) out.codes[j] = static_cast<uint8_t>(byte_at(block + 2, j) ^ 0x80U);
}

void read_q4_0(const std::byte* block, const BlockOut& out) {
  out.scales[0] = half_at(block);
  for (size_t j = 0; j < kSmall; ++j) out.codes[j] = static_cast<uint8_t>(nibble(block + 2, j));
}

void read_q4_1(const std::byte* block, const BlockOut& out) {
  out.scales[0] = half_at(block);
  out.minimums[0] = half_at(block + 2);
  for (size_t j = 0; j < kSmall; ++j) out.codes[j] = static_cast<uint8_t>(nibble(block + 4, j));
}

/// Elements have 5 bits; all fifth bits are in a separate word.
void read_q5_0(const std::byte* block, const BlockOut& out) {
  out.scales[0] = half_at(block);
  const uint32_t fifths = word_at(block + 2);
  for (size_t j = 0; j < kSmall; ++j) {
    const uint32_t code = nibble(block + 6, j) | (fifths >> j & 1U) << 4U;
    out.codes[j] = static_cast<uint8_t>(code + 128 - 16);
  }
}

void read_q5_1(const std::byte* block, const BlockOut& out) {
  out.scales[0] = half_at(block);
  out.minimums[0] = half_at(block + 2);
  const uint32_t fifths = word_at(block + 4);
  for (size_t j = 0; j < kSmall; ++j)
    out.codes[j] = static_cast<uint8_t>(nibble(block + 8, j) | (fifths >> j & 1U) << 4U);
}

/// Two bits of an element: 128 elements share 32 bytes, the first 32 elements in the two lowest bits.
uint32_t crumb(const std::byte* quarters, size_t element) {
  return byte_at(quarters, element / 128 * 32 + element % 32) >> (element % 128 / 32 * 2) & 3U;
}

void read_q2_k(const std::byte* block, const BlockOut& out) {
  const float scale = half_at(block + 80);
  const float minimum = half_at(block + 82);
  for (size_t i = 0; i < 16; ++i) {
    // Both products are exact: 11 by 4 bits.
    out.scales[i] = scale * static_cast<float>(byte_at(block, i) & 15U);
    out.minimums[i] = -(minimum * static_cast<float>(byte_at(block, i) >> 4U));
  }
  for (size_t j = 0; j < kSuper; ++j) out.codes[j] = static_cast<uint8_t>(crumb(block + 16, j));
}

/// Scales have six bits: the lower four are nibbles of the first eight bytes, low nibbles first; the upper
/// two are in the last four bytes. If the third bit of an element is clear, 4 is subtracted.
void read_q3_k(const std::byte* block, const BlockOut& out) {
  const std::byte* packed = block + 96;
  const float scale = half_at(block + 108);
  for (size_t i = 0; i < 16; ++i) {
    const uint32_t low = byte_at(packed, i % 8) >> (i / 8 * 4) & 15U;
    const uint32_t high = byte_at(packed, 8 + i % 4) >> (i / 4 * 2) & 3U;
    out.scales[i] = scale * static_cast<float>(static_cast<int>(low | high << 4U) - 32);
  }
  for (size_t j = 0; j < kSuper; ++j) {
    const uint32_t third = byte_at(block, j % 32) >> (j / 32) & 1U;
    out.codes[j] = static_cast<uint8_t>(crumb(block + 32, j) + 4 * third + 8 - 4);
  }
}

/// Eight scales and minimums of six bits each, packed into twelve bytes.
void read_k_scales(const std::byte* block, const BlockOut& out) {
  const float scale = half_at(block);
  const float minimum = half_at(block + 2);
  const std::byte* packed = block + 4;
  for (size_t i = 0; i < 8; ++i) {
    uint32_t six_scale = 0;
    uint32_t six_minimum = 0;
    if (i < 4) {
      six_scale = byte_at(packed, i) & 63U;
      six_minimum = byte_at(packed, i + 4) & 63U;
    } else {
      six_scale = (byte_at(packed, i + 4) & 15U) | byte_at(packed, i - 4) >> 6U << 4U;
      six_minimum = byte_at(packed, i + 4) >> 4U | byte_at(packed, i) >> 6U << 4U;
    }
    // Both products are exact: 11 by 6 bits.
    out.scales[i] = scale * static_cast<float>(six_scale);
    out.minimums[i] = -(minimum * static_cast<float>(six_minimum));
  }
}

/// Nibble of an element: 64 elements share 32 bytes, the first 32 elements in the low nibbles.
uint32_t k_nibble(const std::byte* halves, size_t element) {
  const uint32_t byte = byte_at(halves, element / 64 * 32 + element % 32);
  return element % 64 < 32 ? byte & 15U : byte >> 4U;
}

void read_q4_k(const std::byte* block, const BlockOut& out) {
  read_k_scales(block, out);
  for (size_t j = 0; j < kSuper; ++j) out.codes[j] = static_cast<uint8_t>(k_nibble(block + 16, j));
}

void read_q5_k(const std::byte* block, const BlockOut& out) {
  read_k_scales(block, out);
  for (size_t j = 0; j < kSuper; ++j) {
    const uint32_t fifth = byte_at(block + 16, j % 32) >> (j / 32) & 1U;
    out.codes[j] = static_cast<uint8_t>(k_nibble(block + 48, j) | fifth << 4U);
  }
}

void read_q6_k(const std::byte* block, const BlockOut& out) {
  const std::byte* high = block + 128;
  const std::byte* scales = block + 192;
  const float scale = half_at(block + 208);
  for (size_t i = 0; i < 16; ++i)
    out.scales[i] = scale * static_cast<float>(static_cast<int8_t>(byte_at(scales, i)));
  for (size_t j = 0; j < kSuper; ++j) {
    // In each half of 128 elements, four quarters of 32 share bytes for their two high bits, and two quarters
    // share bytes for their four low bits.
    const size_t half = j / 128;
    const size_t quarter = j % 128 / 32;
    const size_t l = j % 32;
    const uint32_t low = byte_at(block, half * 64 + quarter % 2 * 32 + l) >> (quarter / 2 * 4) & 15U;
    const uint32_t upper = byte_at(high, half * 32 + l) >> (quarter * 2) & 3U;
    out.codes[j] = static_cast<uint8_t>((low | upper << 4U) + 128 - 32);
  }
}

// Types whose codes index a table of int8 values.

constexpr std::array<int8_t, 16> kIq4Values = {-127, -104, -83, -65, -49, -35, -22, -10,
                                               1,    13,   25,  38,  53,  69,  89,  113};
/// Values of e2m1 (4-bit floats), doubled.
constexpr std::array<int8_t, 16> kSignedTwiceE2m1 = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

void read_iq4_nl(const std::byte* block, const BlockOut& out) {
  out.scales[0] = half_at(block);
  for (size_t j = 0; j < kSmall; ++j) out.codes[j] = around_128(kIq4Values[nibble(block + 2, j)]);
}

void read_iq4_xs(const std::byte* block, const BlockOut& out) {
  const float scale = half_at(block);
  const uint32_t highs = u16_at(block + 2, 0);
  for (size_t i = 0; i < 8; ++i) {
    const uint32_t six = next_nibble(block + 4, i) | (highs >> (2 * i) & 3U) << 4U;
    out.scales[i] = scale * static_cast<float>(static_cast<int>(six) - 32);
    for (size_t j = 0; j < kGgmlGroup; ++j)
      out.codes[i * kGgmlGroup + j] = around_128(kIq4Values[nibble(block + 8 + i * kGgmlGroup / 2, j)]);
  }
}

/// The scale is 2^(e - 127); it is halved here because the table's values are doubled.
void read_mxfp4(const std::byte* block, const BlockOut& out) {
  out.scales[0] = std::ldexp(1.0F, static_cast<int>(byte_at(block, 0)) - 128);
  for (size_t j = 0; j < kSmall; ++j) out.codes[j] = around_128(kSignedTwiceE2m1[nibble(block + 1, j)]);
}

/// Four runs of 16 elements, each with an e4m3 scale whose sign bit is ignored.
void read_nvfp4(const std::byte* block, const BlockOut& out) {
  constexpr size_t kRun = 16;
  for (size_t i = 0; i < 4; ++i) {
    const uint32_t byte = byte_at(block, i);
    const uint32_t exponent = byte >> 3U & 15U;
    const auto fraction = static_cast<float>(byte & 7U);
    const float scale =
        exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, static_cast<int>(exponent) - 10);
    out.scales[i] = byte == 0x7f ? 0 : scale / 2;
    const std::byte* nibbles = block + 4 + i * kRun / 2;
    for (size_t j = 0; j < kRun; ++j) {
      const uint32_t code = byte_at(nibbles, j % (kRun / 2)) >> (j / (kRun / 2) * 4) & 15U;
      out.codes[i * kRun + j] = around_128(kSignedTwiceE2m1[code]);
    }
  }
}

// Binary and ternary types: -1, 0 or 1 times a scale, stored with a zero point of 8.

void read_q1_0(const std::byte* block, const BlockOut& out) {
  constexpr size_t kElements = 128;
  std::fill_n(out.scales, kElements / kGgmlGroup, half_at(block));
  for (size_t j = 0; j < kElements; ++j)
    out.codes[j] = (byte_at(block + 2, j / 8) >> (j % 8) & 1U) != 0 ? 9 : 7;
}

void read_q2_0(const std::byte* block, const BlockOut& out) {
  constexpr size_t kElements = 64;
  std::fill_n(out.scales, kElements / kGgmlGroup, half_at(block));
  for (size_t j = 0; j < kElements; ++j)
    out.codes[j] = static_cast<uint8_t>((byte_at(block + 2, j / 4) >> (j % 4 * 2) & 3U) + 8 - 1);
}

/// Ternary digit of a byte, which holds five as a fraction of 256, the first one most significant.
uint32_t ternary_digit(uint32_t byte, size_t index) {
  constexpr std::array<uint32_t, 5> kPowers = {1, 3, 9, 27, 81};
  return (byte * kPowers[index] & 255U) * 3 >> 8U;
}

void read_tq1_0(const std::byte* block, const BlockOut& out) {
  std::fill_n(out.scales, kSuper / kGgmlGroup, half_at(block + 52));
  uint8_t* code = out.codes;
  const auto read_digits = [&](const std::byte* bytes, size_t num_bytes, size_t num_digits) {
    for (size_t digit = 0; digit < num_digits; ++digit) {
      for (size_t i = 0; i < num_bytes; ++i)
        *code++ = static_cast<uint8_t>(ternary_digit(byte_at(bytes, i), digit) + 8 - 1);
    }
  };
  read_digits(block, 32, 5);
  read_digits(block + 32, 16, 5);
  read_digits(block + 48, 4, 4);
}

void read_tq2_0(const std::byte* block, const BlockOut& out) {
  std::fill_n(out.scales, kSuper / kGgmlGroup, half_at(block + 64));
  for (size_t j = 0; j < kSuper; ++j) out.codes[j] = static_cast<uint8_t>(crumb(block, j) + 8 - 1);
}

// Types with codebooks: points of 8 or 4 coordinates, and signs of the coordinates.

/// Eight sign bits from seven; the eighth makes the parity even.
uint32_t with_parity(uint32_t seven) {
  return seven | static_cast<uint32_t>(std::popcount(seven) & 1) << 7U;
}

/// Writes a point's coordinates with signs. Bit j of `signs` is set where coordinate j is negative.
template <size_t kBits, typename Levels>
void put_point(uint32_t point, uint32_t signs, const Levels& levels, uint8_t* codes) {
  for (size_t j = 0; j < 16 / kBits; ++j) {
    const int level = levels[point >> (kBits * j) & ((1U << kBits) - 1)];
    codes[j] = around_128((signs >> j & 1U) != 0 ? -level : level);
  }
}

void read_iq2_xxs(const std::byte* block, const BlockOut& out) {
  const float scale = half_at(block);
  for (size_t i = 0; i < 8; ++i) {
    const std::byte* group = block + 2 + 8 * i;
    const uint32_t signs = word_at(group + 4);
    out.scales[i] = scale * (0.5F + static_cast<float>(signs >> 28U)) * 0.25F;
    for (size_t l = 0; l < 4; ++l)
      put_point<2>(kIq2XxsPoints[byte_at(group, l)], with_parity(signs >> (7 * l) & 127U), kIq2Levels,
                   out.codes + i * kGgmlGroup + 8 * l);
  }
}

/// Scales of IQ2_XS and IQ2_S.
void read_iq2_scales(float scale, const std::byte* nibbles, const BlockOut& out) {
  for (size_t i = 0; i < 16; ++i)
    out.scales[i] = scale * (0.5F + static_cast<float>(next_nibble(nibbles, i))) * 0.25F;
}

void read_iq2_xs(const std::byte* block, const BlockOut& out) {
  read_iq2_scales(half_at(block), block + 66, out);
  for (size_t l = 0; l < 32; ++l) {
    const uint32_t entry = u16_at(block + 2, l);
    put_point<2>(kIq2XsPoints[entry & 511U], with_parity(entry >> 9U), kIq2Levels, out.codes + 8 * l);
  }
}

void read_iq2_s(const std::byte* block, const BlockOut& out) {
  read_iq2_scales(half_at(block), block + 74, out);
  for (size_t l = 0; l < 32; ++l) {
    const uint32_t high = byte_at(block + 66, l / 4) >> (l % 4 * 2) & 3U;
    put_point<2>(kIq2SPoints[byte_at(block + 2, l) | high << 8U], byte_at(block + 34, l), kIq2Levels,
                 out.codes + 8 * l);
  }
}

void read_iq3_xxs(const std::byte* block, const BlockOut& out) {
  const float scale = half_at(block);
  for (size_t i = 0; i < 8; ++i) {
    const uint32_t signs = word_at(block + 66 + 4 * i);
    out.scales[i] = scale * (0.5F + static_cast<float>(signs >> 28U)) * 0.5F;
    for (size_t l = 0; l < 8; ++l) {
      const uint32_t eight = with_parity(signs >> (l / 2 * 7) & 127U);
      put_point<4>(kIq3XxsPoints[byte_at(block + 2, 8 * i + l)], eight >> (l % 2 * 4), kIq3XxsLevels,
                   out.codes + i * kGgmlGroup + 4 * l);
    }
  }
}

/// Weights are odd multiples, from -15 to 15, of the scale: 2 * q - 15 for a 4-bit q.
void read_iq3_s(const std::byte* block, const BlockOut& out) {
  const float scale = half_at(block);
  for (size_t i = 0; i < 8; ++i) {
    const float step = scale * static_cast<float>(1 + 2 * next_nibble(block + 106, i));
    out.scales[i] = 2 * step;
    out.minimums[i] = -15 * step;  // exact: 16 by 4 bits
  }
  for (size_t l = 0; l < 64; ++l) {
    const uint32_t high = byte_at(block + 66, l / 8) >> (l % 8) & 1U;
    const uint32_t point = kIq3SPoints[byte_at(block + 2, l) | high << 8U];
    for (size_t j = 0; j < 4; ++j) {
      const uint32_t place = point >> (4 * j) & 15U;
      const bool negative = (byte_at(block + 74, l / 2) >> (l % 2 * 4 + j) & 1U) != 0;
      out.codes[4 * l + j] = static_cast<uint8_t>(negative ? 7 - place : 8 + place);
    }
  }
}

constexpr float kIq1Delta = 0.125F;

/// A coordinate is -1, 0 or 1, plus or minus an eighth that a group shares.
void read_iq1_s(const std::byte* block, const BlockOut& out) {
  const float scale = half_at(block);
  for (size_t i = 0; i < 8; ++i) {
    const uint32_t high = u16_at(block + 34, i);
    out.scales[i] = scale * static_cast<float>(2 * (high >> 12U & 7U) + 1);
    out.minimums[i] = out.scales[i] * ((high >> 15U) != 0 ? -1 - kIq1Delta : -1 + kIq1Delta);
    for (size_t l = 0; l < 4; ++l) {
      const uint32_t point = kIq1Points[byte_at(block + 2, 4 * i + l) | (high >> (3 * l) & 7U) << 8U];
      for (size_t j = 0; j < 8; ++j)
        out.codes[i * kGgmlGroup + 8 * l + j] = static_cast<uint8_t>(point >> (2 * j) & 3U);
    }
  }
}

/// The offset of an eighth has its sign per eight elements, so q-values are in eighths. The f16 scale is made
/// of the upper four bits of four words.
void read_iq1_m(const std::byte* block, const BlockOut& out) {
  const std::byte* packed = block + 48;
  f16 scale;
  scale.bits = 0;
  for (size_t i = 0; i < 4; ++i)
    scale.bits = static_cast<uint16_t>(scale.bits | (u16_at(packed, i) >> 12U) << (4 * i));
  for (size_t i = 0; i < 16; ++i) {
    const uint32_t three = u16_at(packed, i / 4) >> (i % 4 * 3) & 7U;
    out.scales[i] = static_cast<float>(scale) * static_cast<float>(2 * three + 1) * kIq1Delta;
  }
  for (size_t l = 0; l < 32; ++l) {
    const uint32_t high = next_nibble(block + 32, l);
    const uint32_t point = kIq1Points[byte_at(block, l) | (high & 7U) << 8U];
    const int moved = (high & 8U) != 0 ? -1 : 1;
    for (size_t j = 0; j < 8; ++j)
      out.codes[8 * l + j] = around_128(8 * (static_cast<int>(point >> (2 * j) & 3U) - 1) + moved);
  }
}

struct BlockType {
  uint32_t type;
  Quantization quantization;
  void (*read)(const std::byte* block, const BlockOut& out);
};

constexpr Quantization k4In16 = {.bits = 4, .group = 16, .wide_scales = true};
constexpr Quantization k4In16Min = {.bits = 4, .group = 16, .has_minimum = true, .wide_scales = true};
constexpr Quantization k4In32 = {.bits = 4, .group = 32};
constexpr Quantization k4In32Wide = {.bits = 4, .group = 32, .has_minimum = true, .wide_scales = true};
constexpr Quantization k8In16 = {.bits = 8, .group = 16, .wide_scales = true};
constexpr Quantization k8In32 = {.bits = 8, .group = 32};
constexpr Quantization k8In32Wide = {.bits = 8, .group = 32, .wide_scales = true};

constexpr std::array kBlockTypes = {
    BlockType{kGgmlQ8_0, k8In32, read_q8_0},
    BlockType{kGgmlQ4_0, k4In32, read_q4_0},
    BlockType{kGgmlQ4_1, {.bits = 4, .group = 32, .has_minimum = true}, read_q4_1},
    BlockType{kGgmlQ5_0, k8In32, read_q5_0},
    BlockType{kGgmlQ5_1, {.bits = 8, .group = 32, .has_minimum = true}, read_q5_1},
    BlockType{kGgmlQ2_K, k4In16Min, read_q2_k},
    BlockType{kGgmlQ3_K, k4In16, read_q3_k},
    BlockType{kGgmlQ4_K, k4In32Wide, read_q4_k},
    BlockType{kGgmlQ5_K, {.bits = 8, .group = 32, .has_minimum = true, .wide_scales = true}, read_q5_k},
    BlockType{kGgmlQ6_K, k8In16, read_q6_k},
    BlockType{kGgmlIq1S, k4In32Wide, read_iq1_s},
    BlockType{kGgmlIq1M, k8In16, read_iq1_m},
    BlockType{kGgmlIq2Xxs, k8In32Wide, read_iq2_xxs},
    BlockType{kGgmlIq2Xs, k8In16, read_iq2_xs},
    BlockType{kGgmlIq2S, k8In16, read_iq2_s},
    BlockType{kGgmlIq3Xxs, k8In32Wide, read_iq3_xxs},
    BlockType{kGgmlIq3S, k4In32Wide, read_iq3_s},
    BlockType{kGgmlIq4Nl, k8In32, read_iq4_nl},
    BlockType{kGgmlIq4Xs, k8In32Wide, read_iq4_xs},
    BlockType{kGgmlQ1_0, k4In32, read_q1_0},
    BlockType{kGgmlQ2_0, k4In32, read_q2_0},
    BlockType{kGgmlTq1_0, k4In32, read_tq1_0},
    BlockType{kGgmlTq2_0, k4In32, read_tq2_0},
    BlockType{kGgmlMxfp4, k8In32Wide, read_mxfp4},
    BlockType{kGgmlNvfp4, {.bits = 8, .group = 16}, read_nvfp4},
};

const BlockType* block_type(uint32_t type) {
  const auto* found = std::ranges::find(kBlockTypes, type, &BlockType::type);
  return found == kBlockTypes.end() ? nullptr : found;
}

}  // namespace

std::optional<Quantization> block_quantization(uint32_t type) {
  const BlockType* found = block_type(type);
  if (found == nullptr) return {};
  return found->quantization;
}

void read_blocks(uint32_t type, const std::byte* row, QuantizedRow& out) {
  const BlockType* found = block_type(type);
  expects(found != nullptr, "read_blocks: the type is quantized");
  const auto block = static_cast<size_t>(ggml_type(type)->block);
  const auto bytes = static_cast<size_t>(ggml_type(type)->block_bytes);
  const size_t groups = block / static_cast<size_t>(found->quantization.group);
  for (size_t b = 0; b < out.codes.size() / block; ++b) {
    float* minimums = out.minimums.empty() ? nullptr : out.minimums.data() + b * groups;
    found->read(row + b * bytes, {out.codes.data() + b * block, out.scales.data() + b * groups, minimums});
  }
}

void widen_blocks(uint32_t type, const std::byte* row, std::span<float> out) {
  if (type == kGgmlF32) return widen(DType::kF32, row, out);
  if (type == kGgmlF16) return widen(DType::kF16, row, out);
  if (type == kGgmlBf16) return widen(DType::kBF16, row, out);
  const std::optional<Quantization> quantization = block_quantization(type);
  expects(quantization.has_value(), "widen_blocks: the type is one that is computed with");
  thread_local QuantizedRow codes;
  codes.resize(*quantization, static_cast<int64_t>(out.size()));
  read_blocks(type, row, codes);
  dequantize(*quantization, codes, out);
}

}  // namespace lacuna
