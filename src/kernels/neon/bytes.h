// GEMM of int8 and int16 activations (KernelTable) with quantized weights. Weights are unpacked to signed
// bytes, once for all rows, and multiplied with the bytes of rows; an int16 is two bytes. `Dots` multiplies
// and accumulates: by dot products in neon/dots.h, by matrix instructions in neon_i8mm/dots.h, bitwise
// identical.
#pragma once

#include <arm_neon.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/generic/int8_activations.h"
#include "kernels/generic/quantized.h"
#include "kernels/neon/quantize_row.h"
#include "kernels/neon/vectors.h"
#include "kernels/panels.h"
#include "kernels/table.h"

namespace lacuna {
namespace {  // NOLINT: as in avx512/vectors.h

/// Number of vectors for a panel's sixteen outputs.
inline constexpr int kVectorsOfPanel = kPanelWidth / Neon::kLanes;

/// Four bytes of each of sixteen outputs.
struct PanelBytes {
  uint8x16_t of_four[kVectorsOfPanel];
};

/// Factors of the accumulators over a run of inputs.
enum class Scaling : uint8_t {
  kOfOutputs,  ///< one scale per output channel, when all inputs are multiplied; also two levels
  kOfGroups,   ///< one scale per group
  kOfGroupsWithMinimums,
};

/// Quantized values of a panel as signed bytes: subtracts 128 from 8-bit values, and 8 from 4-bit values in
/// groups without minimums.
class SignedBytes {
 public:
  SignedBytes(const PanelProduct& p, int64_t panel)
      : quantization_(p.quantization),
        layout_(p.quantization, p.depth),
        begin_(generic::begin_of(p, panel)) {}

  static constexpr int kZeroPointOf8Bits = 128;

  static bool has_8_bits(const Quantization& quantization) {
    return quantization.bits == 8 || quantization.two_levels;
  }
  /// Zero point: subtracted from values that have one scale per output channel, or minimums.
  static float zero_point(const Quantization& quantization) {
    return has_8_bits(quantization) ? kZeroPointOf8Bits : 0;
  }

  const std::byte* words(int64_t k) const { return begin_ + layout_.word(0, k); }

  /// Unpacks inputs [k, k + depth); Dots::arrange writes 128 bytes for each eight inputs.
  template <typename Dots>
  void unpack(int64_t k, int64_t depth, int8_t* to) const {
    if (quantization_.two_levels) return unpack_two_levels<Dots>(k, depth, to);
    if (quantization_.bits == 8) return unpack_8_bits<Dots>(k, depth, to);
    const bool is_centered = quantization_.group > 0 && !quantization_.has_minimum;
    unpack_4_bits<Dots>(k, depth, to,
                        [middle = vdupq_n_u8(is_centered ? 8 : 0)](uint8x16_t nibbles, int /*vector*/) {
                          return vsubq_u8(nibbles, middle);
                        });
  }

  /// Writes the scales of sixteen outputs for the group of input k.
  void scales(int64_t k, float* to) const {
    for (int64_t lane = 0; lane < kPanelWidth; lane += Neon::kLanes)
      Neon::store(to + lane, floats(begin_ + layout_.scale(lane, layout_.group_of(k))));
  }
  /// Writes the minimums of these outputs, corrected for the signed bytes.
  void minimums(int64_t k, float* to) const {
    const auto zero = Neon::broadcast(zero_point(quantization_));
    for (int64_t lane = 0; lane < kPanelWidth; lane += Neon::kLanes) {
      const int64_t group = layout_.group_of(k);
      const auto minimum = floats(begin_ + layout_.minimum(lane, group));
      Neon::store(to + lane, Neon::multiply_add(floats(begin_ + layout_.scale(lane, group)), zero, minimum));
    }
  }

 private:
  static constexpr int64_t kBytesAhead = 2048;

  Neon::Vec floats(const std::byte* from) const {
    return quantization_.wide_scales ? Neon::load(reinterpret_cast<const float*>(from))
                                     : Neon::load_f16(reinterpret_cast<const f16*>(from));
  }

  template <typename Dots>
  void unpack_8_bits(int64_t k, int64_t depth, int8_t* to) const {
    const std::byte* from = words(k);
    const auto take = [&from] {
      PanelBytes bytes;
      __builtin_prefetch(from + kBytesAhead);
#pragma GCC unroll 4
      for (uint8x16_t& of_four : bytes.of_four) {
        of_four = veorq_u8(load_as<uint8x16_t>(from), vdupq_n_u8(128));
        from += sizeof of_four;
      }
      return bytes;
    };
    for (int64_t i = 0; i < depth; i += 8, to += 8 * kPanelWidth) {
      const PanelBytes first = take();
      Dots::arrange(first, take(), to);
    }
  }

  ///   signed_bytes  converts 4-bit values, one per byte, of the i-th vector of outputs to signed bytes
  template <typename Dots, typename Convert>
  void unpack_4_bits(int64_t k, int64_t depth, int8_t* to, const Convert& signed_bytes) const {
    const std::byte* from = words(k);
    for (int64_t i = 0; i < depth; i += 8, to += 8 * kPanelWidth) {
      PanelBytes first;
      PanelBytes second;
      __builtin_prefetch(from + kBytesAhead);
#pragma GCC unroll 4
      for (int v = 0; v < kVectorsOfPanel; ++v) {
        const auto words = load_as<uint8x16_t>(from);
        first.of_four[v] = signed_bytes(vandq_u8(words, vdupq_n_u8(15)), v);
        second.of_four[v] = signed_bytes(vshrq_n_u8(words, 4), v);
        from += sizeof words;
      }
      Dots::arrange(first, second, to);
    }
  }

  template <typename Dots>
  void unpack_two_levels(int64_t k, int64_t depth, int8_t* to) const {
    for (int64_t run = 0; run < depth; run += kQuantizedDepthStep) {
      const int64_t group = layout_.group_of(k + run);
      const auto scales = load_as<uint8x16_t>(begin_ + layout_.scale(0, group));
      const auto offsets = veorq_u8(load_as<uint8x16_t>(begin_ + layout_.minimum(0, group)), vdupq_n_u8(128));
      PanelBytes scale;
      PanelBytes offset;
      for (int v = 0; v < kVectorsOfPanel; ++v) {
        static constexpr uint8_t kFourTimes[] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
        const uint8x16_t outputs = vaddq_u8(vld1q_u8(kFourTimes), vdupq_n_u8(static_cast<uint8_t>(4 * v)));
        scale.of_four[v] = vqtbl1q_u8(scales, outputs);
        offset.of_four[v] = vqtbl1q_u8(offsets, outputs);
      }
      unpack_4_bits<Dots>(
          k + run, kQuantizedDepthStep, to + run * kPanelWidth,
          [&](uint8x16_t nibbles, int v) { return vmlaq_u8(offset.of_four[v], nibbles, scale.of_four[v]); });
    }
  }

  const Quantization& quantization_;
  QuantizedLayout layout_;
  const std::byte* begin_;
};

/// Accumulators over one group or, with one scale per output channel, over 256 inputs are exact; they are
/// then scaled and added as floats, and every 256 inputs the scale of the row is applied.
///   kRowParts  bytes of an integer of a row: 1 or 2
template <typename Dots, int kRowParts, Scaling kScaling>
struct ByteKernel {
  using Vectors = Neon;
  using TileElement = int16_t;  // twice the size of values, to leave room for scales and minimums after them
  static constexpr int64_t kBytesPerInput = kPanelWidth;
  static constexpr int kTileRows = 6 / kRowParts;                  // 24 accumulators
  static constexpr int64_t kDepthBlock = 3 * generic::kInt8Group;  // 12 KiB of a panel
  static constexpr int kPanelsOfFewRows = 1;
  static constexpr int64_t kBytesAhead = 0;

  static const std::byte* place(const PanelProduct& p, int64_t panel, int64_t k) {
    return SignedBytes(p, panel).words(k);
  }

  static const int16_t* slice(const PanelProduct& p, int64_t panel, int64_t k, int64_t depth,
                              int16_t* space) {
    const SignedBytes values(p, panel);
    auto* const bytes = reinterpret_cast<int8_t*>(space);
    values.unpack<Dots>(k, depth, bytes);
    if constexpr (kScaling != Scaling::kOfOutputs) {
      auto* const factors = reinterpret_cast<float*>(bytes + kFactors);
      for (int64_t i = 0; i < depth; i += p.quantization.group) {
        float* const of_group = factors + i / p.quantization.group * 2 * kPanelWidth;
        values.scales(k + i, of_group);
        if (kScaling == Scaling::kOfGroupsWithMinimums) values.minimums(k + i, of_group + kPanelWidth);
      }
    }
    return space;
  }

  template <int kPanels, int kRows>
  static void tile(const PanelProduct& p, int64_t first_row, const generic::Slices<ByteKernel>& slices) {
    static_assert(kPanels == 1);
    const int64_t row_bytes = p.a_strides.row * p.a_element_bytes;
    const auto* const rows = static_cast<const int8_t*>(p.a) + first_row * row_bytes;
    const auto* const weights = reinterpret_cast<const int8_t*>(slices.begin[0]);
    float* const out = p.out + first_row * p.out_stride + slices.panel * kPanelWidth;
    const int64_t group = kScaling == Scaling::kOfOutputs ? generic::kInt8Group : p.quantization.group;
    const int64_t scales_per_row = p.scales_per_row;
    for (int64_t begin = 0; begin < slices.depth; begin += generic::kInt8Group) {
      const int64_t end = std::min(begin + generic::kInt8Group, slices.depth);
      float32x4_t all[kRows][kVectorsOfPanel];
#pragma GCC unroll 6
      for (auto& of_row : all) {
#pragma GCC unroll 4
        for (float32x4_t& of_outputs : of_row) of_outputs = Neon::zero();
      }
      for (int64_t run = begin; run < end; run += group) {
        int32x4_t sums[kRows][kVectorsOfPanel];
        Dots::template multiply<kRowParts, kRows>(weights + run * kPanelWidth, std::min(group, end - run),
                                                  rows + kRowParts * (slices.k + run), row_bytes, sums);
        const auto* const factors =
            reinterpret_cast<const float*>(weights + kFactors) + run / group * 2 * kPanelWidth;
        add_run<kRows>(sums, factors, rows + kRowParts * p.depth + (slices.k + run) / kInputsOfSum * 4,
                       row_bytes, group == 2 * kInputsOfSum, all);
      }
      const int64_t first_scale = kRowParts == 1 ? (slices.k + begin) / generic::kInt8Group : 0;
      const bool accumulate = slices.k + begin > 0;
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r) {
        const auto row_scale = Neon::broadcast(p.row_scales[(first_row + r) * scales_per_row + first_scale]);
        float* const at = out + r * p.out_stride;
#pragma GCC unroll 4
        for (int v = 0; v < kVectorsOfPanel; ++v) {
          const auto before = accumulate ? Neon::load(at + v * Neon::kLanes) : Neon::zero();
          Neon::store(at + v * Neon::kLanes, Neon::multiply_add(all[r][v], row_scale, before));
        }
      }
    }
  }

  static void finish(const PanelProduct& p, int64_t panel, int64_t count, int64_t first_row,
                     int64_t end_row) {
    SignedBytes::zero_point(p.quantization) == 0
        ? generic::scale_sums<Neon>(p, panel, count, first_row, end_row)
        : generic::scale_sums<Neon, SignedBytes::kZeroPointOf8Bits>(p, panel, count, first_row, end_row);
  }

 private:
  static constexpr int64_t kFactors = kDepthBlock * kPanelWidth;  // bytes before scales and minimums

  /// Adds the scaled accumulators of a run to `all`.
  ///   factors   scales, then minimums of the run's group
  ///   row_sums  sums of 16 integers of the first row, from the run's first on; two per group of 32
  template <int kRows>
  static void add_run(const int32x4_t (&sums)[kRows][kVectorsOfPanel], const float* factors,
                      const int8_t* row_sums, int64_t row_bytes, bool has_two_sums,
                      float32x4_t (&all)[kRows][kVectorsOfPanel]) {
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      [[maybe_unused]] float row_sum = 0;
      if constexpr (kScaling == Scaling::kOfGroupsWithMinimums) {
        int32_t of_sixteen[2] = {};
        std::memcpy(of_sixteen, row_sums + r * row_bytes, has_two_sums ? 8 : 4);
        row_sum = static_cast<float>(of_sixteen[0] + of_sixteen[1]);
      }
#pragma GCC unroll 4
      for (int v = 0; v < kVectorsOfPanel; ++v) {
        const float32x4_t numbers = vcvtq_f32_s32(sums[r][v]);
        if constexpr (kScaling == Scaling::kOfOutputs) {
          all[r][v] = numbers;  // a run covers all inputs of a row scale
        } else {
          const auto scale = Neon::load(factors + v * Neon::kLanes);
          all[r][v] = Neon::multiply_add(numbers, scale, all[r][v]);
          if constexpr (kScaling == Scaling::kOfGroupsWithMinimums) {
            const auto minimum = Neon::load(factors + kPanelWidth + v * Neon::kLanes);
            all[r][v] = Neon::multiply_add(minimum, Neon::broadcast(row_sum), all[r][v]);
          }
        }
      }
    }
  }
};

template <typename Dots, int kRowParts>
void byte_product(const PanelProduct& p) {
  using generic::panel_product;
  if (p.quantization.scales_sums()) return panel_product<ByteKernel<Dots, kRowParts, Scaling::kOfOutputs>>(p);
  p.quantization.has_minimum ? panel_product<ByteKernel<Dots, kRowParts, Scaling::kOfGroupsWithMinimums>>(p)
                             : panel_product<ByteKernel<Dots, kRowParts, Scaling::kOfGroups>>(p);
}

inline bool takes_every_quantization(const Quantization& quantization) {
  return quantization.bits > 0;
}

}  // namespace
}  // namespace lacuna
