// Panel layout of weights, keys and values.
//
// A matrix W of N outputs by K inputs is cut into panels of 16 outputs. Within a panel the 16 outputs of one
// input are contiguous, so that a matmul walks memory in one direction and fills whole vectors:
//
//   f32   [N/16][K][16]         element (n, k) at  panel * K * 16 + k * 16 + lane
//   bf16  [N/16][K/2][16][2]    two adjacent inputs of one output share a 32-bit word, as the dot-product
//                               instructions of AVX-512 and AMX need; AVX2 splits the pair by a shift
//
// Keys are such a matrix with N = cells and K = head_dim; values one with N = head_dim and K = cells. All
// padding is zero.
//
// Panels of quantized weights hold the scales of groups, their minimums if the format has them, and quantized
// values in words of adjacent inputs of one output (code_shift()):
//
//   outputs   [2][16]               f32 scales and minimums of outputs; only with two levels
//   scales    [groups][16]          f16, f32, or with two levels 8-bit integers; then minimums likewise;
//                                   together padded to whole cache lines
//   values    [K / per word][16]    32-bit words of four 8-bit or eight 4-bit values; K is padded to 32
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/dtype.h"

namespace lacuna {

inline constexpr int64_t kPanelWidth = 16;

/// K is padded to a multiple of this for bf16 (one AMX tile holds 32 inputs), not for f32.
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

inline constexpr int64_t kCacheLine = 64;  // bytes

/// Row stride in elements of a GEMM's output: whole panels plus a cache line, because rows at a distance of a
/// power of two would map to a few cache sets.
constexpr int64_t output_stride(int64_t outputs) {
  return round_up(outputs, kPanelWidth) + kCacheLine / static_cast<int64_t>(sizeof(float));
}

/// Offset of element (lane, k) within its panel, in elements.
template <typename Element>
constexpr int64_t panel_offset(int64_t lane, int64_t k) {
  if constexpr (sizeof(Element) == 2) return (k / 2) * (2 * kPanelWidth) + 2 * lane + k % 2;
  return k * kPanelWidth + lane;
}

/// Quantization format: weight = scale * code + minimum in f32, rounded once, with a scale and minimum per
/// group of adjacent inputs of one output.
///
/// With two levels, scales and minimums of groups are integers, and value = scale * code + minimum is an
/// integer in [0, 255]; weight = output_scale * value + output_minimum in f32, rounded once.
struct Quantization {
  int32_t bits = 0;          ///< bits of a quantized value, 4 or 8; 0: the weights are not quantized
  int32_t group = 0;         ///< inputs that share a scale, 16 or 32; 0: all inputs of the output
  bool has_minimum = false;  ///< otherwise minimum = -2^(bits - 1) * scale (symmetric quantization)
  bool wide_scales = false;  ///< scales and minimums are f32, otherwise f16
  bool two_levels = false;   ///< only with bits 4, group 32 and minimums, and without wide_scales
  /// Codes are 8-bit floats (e4m3, weights/quantize.h): weight = scale * float. Only with bits 8 and one f32
  /// scale per output. CPU matmuls do not support them.
  bool is_e4m3 = false;

  /// Whether each output has one scale and minimum for its integer values. Matmuls then multiply by the
  /// values, which are exact in bf16, and scale only the accumulators.
  constexpr bool scales_sums() const { return bits > 0 && (group == 0 || two_levels); }

  bool operator==(const Quantization&) const = default;
};

inline constexpr int64_t kQuantizedDepthStep = 32;

/// Bit position in a word of the quantized value of its input `index`. Inputs 0 and 1 are in the even bytes,
/// 2 and 3 in the odd ones, so a mask yields pairs of 16 bits. 4-bit inputs 4 to 7 are the high nibbles.
template <int kBits>
constexpr int code_shift(int index) {
  constexpr int kBytes[] = {0, 2, 1, 3};
  return 8 * kBytes[index % 4] + index / 4 * kBits;
}

/// code_shift() with `bits` as a runtime value.
constexpr int code_shift(int bits, int index) {
  return bits == 4 ? code_shift<4>(index) : code_shift<8>(index);
}

/// Byte offsets in a quantized panel of `depth` inputs. Construct it once for many look-ups, which then need
/// no division.
class QuantizedLayout {
 public:
  // Always inlined: the linker keeps one copy of a function, maybe one that was compiled for wider vectors.
  [[gnu::always_inline]] constexpr QuantizedLayout(const Quantization& quantization, int64_t depth)
      : depth_(round_up(depth, kQuantizedDepthStep)),
        group_shift_(quantization.group == 0    ? kOneGroup
                     : quantization.group == 16 ? 4
                                                : 5),
        groups_(quantization.group == 0 ? 1 : depth_ >> group_shift_),
        word_shift_(quantization.bits == 4 ? 3 : 2),
        scale_bytes_(quantization.two_levels    ? 1
                     : quantization.wide_scales ? 4
                                                : 2),
        scales_(quantization.two_levels ? 2 * kFloatsOfLanes : 0),
        codes_(round_up(scales_ + groups_ * kPanelWidth * scale_bytes_ * (quantization.has_minimum ? 2 : 1),
                        64)) {}

  constexpr int64_t groups() const { return groups_; }
  constexpr int64_t group_of(int64_t k) const { return k >> group_shift_; }
  /// Number of inputs that share scales and fill whole words.
  constexpr int64_t run_length() const { return group_shift_ == 4 ? 16 : kQuantizedDepthStep; }
  constexpr int64_t codes_per_word() const { return int64_t{1} << word_shift_; }
  /// With two levels only.
  static constexpr int64_t output_scale(int64_t lane) { return lane * int64_t{sizeof(float)}; }
  static constexpr int64_t output_minimum(int64_t lane) { return kFloatsOfLanes + output_scale(lane); }
  constexpr int64_t scale(int64_t lane, int64_t group) const {
    return scales_ + (group * kPanelWidth + lane) * scale_bytes_;
  }
  constexpr int64_t minimum(int64_t lane, int64_t group) const { return scale(lane, groups_ + group); }
  /// The word that holds input k.
  constexpr int64_t word(int64_t lane, int64_t k) const {
    return codes_ + ((k >> word_shift_) * kPanelWidth + lane) * 4;
  }
  constexpr int64_t bytes() const { return word(0, depth_); }

 private:
  static constexpr int kOneGroup = 62;  // shift that maps every input to group 0
  static constexpr int64_t kFloatsOfLanes = kPanelWidth * int64_t{sizeof(float)};

  int64_t depth_;
  int group_shift_;
  int64_t groups_;
  int word_shift_;
  int64_t scale_bytes_;
  int64_t scales_;
  int64_t codes_;
};

/// Non-owning view of a packed matrix.
struct PanelView {
  const void* data = nullptr;  ///< float, bf16 or quantized panels, aligned to 64 bytes
  DType dtype = DType::kF32;   ///< kF32 or kBF16; ignored for quantized weights
  int64_t outputs = 0;         ///< N
  int64_t inputs = 0;          ///< K, without padding
  int64_t panel_stride = 0;    ///< from one panel to the next: elements, >= padded_depth * 16; bytes for
                               ///< quantized weights
  Quantization quantization = {};

  bool is_quantized() const { return quantization.bits > 0; }
  const void* panel(int64_t index) const {
    const int64_t unit = is_quantized() ? 1 : static_cast<int64_t>(size_of(dtype));
    return static_cast<const char*>(data) + index * panel_stride * unit;
  }
};

/// Reads a group's scale or minimum from a panel.
[[gnu::always_inline]] inline float read_scale(const Quantization& quantization, const std::byte* from) {
  if (quantization.two_levels) return std::to_integer<uint8_t>(*from);
  float wide = 0;
  f16 narrow;
  if (!quantization.wide_scales) {
    std::memcpy(&narrow, from, sizeof narrow);
    return static_cast<float>(narrow);
  }
  std::memcpy(&wide, from, sizeof wide);
  return wide;
}

/// weight = scale * value + minimum for all inputs of an output.
struct OutputScale {
  float scale = 1;
  float minimum = 0;
};

/// Scales and minimums of a panel's sixteen outputs; only with Quantization::scales_sums().
[[gnu::always_inline]] inline void read_output_scales(const Quantization& quantization,
                                                      const QuantizedLayout& layout, const std::byte* panel,
                                                      float* scales, float* minimums) {
  if (quantization.two_levels) {
    std::memcpy(scales, panel + QuantizedLayout::output_scale(0), kPanelWidth * sizeof(float));
    std::memcpy(minimums, panel + QuantizedLayout::output_minimum(0), kPanelWidth * sizeof(float));
    return;
  }
  const auto middle = static_cast<float>(1 << (quantization.bits - 1));
  for (int64_t lane = 0; lane < kPanelWidth; ++lane) {
    scales[lane] = read_scale(quantization, panel + layout.scale(lane, 0));
    minimums[lane] = quantization.has_minimum ? read_scale(quantization, panel + layout.minimum(lane, 0))
                                              : -middle * scales[lane];
  }
}

}  // namespace lacuna
