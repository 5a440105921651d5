// The layout that weights, keys and values share.
//
// A matrix W of N outputs by K inputs is cut into panels of 16 outputs. Within a panel the 16 outputs of one
// input are contiguous, so that a matmul walks memory in one direction and fills whole vectors:
//
//   f32   [N/16][K][16]         element (n, k) at  panel * K * 16 + k * 16 + lane
//   bf16  [N/16][K/2][16][2]    two neighbouring inputs of one output share a 32-bit word, as the dot-product
//                               instructions of AVX-512 and AMX want them; AVX2 splits the pair by a shift
//
// Keys are such a matrix with N = cells and K = head_dim; values one with N = head_dim and K = cells. All
// padding is zero.
//
// Weights may be quantized as well. A panel then begins with the scales of its groups, then their minimums if
// it has any, and continues with the codes, as words that hold neighbouring inputs of one output (see
// code_shift()):
//
//   of outputs [2][16]              f32 scales and minimums; only with two levels
//   scales    [groups][16]          f16, f32, or with two levels 8-bit integers; minimums likewise;
//                                   together padded to whole cache lines
//   codes     [K / per word][16]    32-bit words of 4 8-bit or 8 4-bit quantized values; K is padded to 32
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

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

inline constexpr int64_t kCacheLine = 64;  // bytes

/// Elements from one row to the next of a matrix that a product writes: whole panels, and a cache line,
/// because rows whose distance is a power of two would all fall into the same few sets of the caches.
constexpr int64_t output_stride(int64_t outputs) {
  return round_up(outputs, kPanelWidth) + kCacheLine / static_cast<int64_t>(sizeof(float));
}

/// Offset of element (lane, k) within its panel, in elements.
template <typename Element>
constexpr int64_t panel_offset(int64_t lane, int64_t k) {
  if constexpr (sizeof(Element) == 2) return (k / 2) * (2 * kPanelWidth) + 2 * lane + k % 2;
  return k * kPanelWidth + lane;
}

/// How quantized panels hold a weight: weight = scale * code + minimum in f32, rounded once. Scale and
/// minimum belong to a group of neighbouring inputs of one output.
///
/// With two levels, scales and minimums of groups are integers, and so is value = scale * code +
/// minimum, within [0, 255]; the weight is output_scale * value + output_minimum in f32, rounded
/// once.
struct Quantization {
  int32_t bits = 0;          ///< bits of a quantized value, 4 or 8; 0: the weights are not quantized
  int32_t group = 0;         ///< inputs that share a scale, 16 or 32; 0: all inputs of the output
  bool has_minimum = false;  ///< otherwise minimum = -2^(bits - 1) * scale: codes lie around the middle one
  bool wide_scales = false;  ///< scales and minimums are f32, otherwise f16
  bool two_levels = false;   ///< only of 4-bit codes in groups of 32 with minimums; wide_scales is false then
  /// Codes are floats of 8 bits (e4m3, weights/quantize.h): weight = scale * float. Only of 8 bits with an
  /// f32 scale for all inputs. Matmuls of the CPU do not read them.
  bool is_e4m3 = false;

  /// Whether one scale and one minimum turn all values of an output into weights. Then products add up rows
  /// by values, which bf16 holds exactly, and only the sums are scaled.
  constexpr bool scales_sums() const { return bits > 0 && (group == 0 || two_levels); }

  bool operator==(const Quantization&) const = default;
};

inline constexpr int64_t kQuantizedDepthStep = 32;

/// How far up the code of the index-th input of a word lies: inputs 0 and 1 in the even bytes, 2 and 3 in the
/// odd ones, so that both are pairs of 16 bits; inputs 4 to 7 of 4-bit codes above them in the same bytes.
template <int kBits>
constexpr int code_shift(int index) {
  constexpr int kBytes[] = {0, 2, 1, 3};
  return 8 * kBytes[index % 4] + index / 4 * kBits;
}

/// The same for `bits` known late.
constexpr int code_shift(int bits, int index) {
  return bits == 4 ? code_shift<4>(index) : code_shift<8>(index);
}

/// Where things lie in one quantized panel of `depth` inputs. All in bytes from the panel's begin. Made once
/// for many look-ups, which need no division.
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
  /// Inputs that share scales and fill whole words.
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
  static constexpr int kOneGroup = 62;  // no input is as far
  static constexpr int64_t kFloatsOfLanes = kPanelWidth * int64_t{sizeof(float)};

  int64_t depth_;
  int group_shift_;
  int64_t groups_;
  int word_shift_;
  int64_t scale_bytes_;
  int64_t scales_;
  int64_t codes_;
};

/// A packed matrix that somebody else owns.
struct PanelView {
  const void* data = nullptr;  ///< float, bf16 or quantized panels, aligned to 64 bytes
  DType dtype = DType::kF32;   ///< kF32 or kBF16; means nothing for quantized weights
  int64_t outputs = 0;         ///< N
  int64_t inputs = 0;          ///< K, without padding
  int64_t panel_stride = 0;    ///< from one panel to the next: elements, >= padded_depth * 16, or, of
                               ///< quantized weights, bytes
  Quantization quantization = {};

  bool is_quantized() const { return quantization.bits > 0; }
  const void* panel(int64_t index) const {
    const int64_t unit = is_quantized() ? 1 : static_cast<int64_t>(size_of(dtype));
    return static_cast<const char*>(data) + index * panel_stride * unit;
  }
};

/// A group's scale or minimum, as panels hold them.
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

/// The factors of a panel's sixteen outputs, where the quantization scales sums.
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
