// Weight quantization: rows of weights to quantized values and scales, and back.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "kernels/panels.h"

namespace lacuna {

/// Quantized weights of one output: weight k = scales[g] * codes[k] + minimums[g] for its group g, in f32;
/// Quantization defines absent minimums. With two levels, this formula gives an 8-bit value, and weight k =
/// of_output.scale * value + of_output.minimum.
struct QuantizedRow {
  std::vector<uint8_t> codes;   ///< [inputs], below 2^bits
  std::vector<float> scales;    ///< [groups]; f16 values unless wide_scales; integers with two levels
  std::vector<float> minimums;  ///< [groups], likewise; empty without minimums
  OutputScale of_output;        ///< with two levels

  void resize(const Quantization& quantization, int64_t inputs);
};

/// Number of groups of one output; the last may be shorter than the others.
int64_t num_groups(const Quantization& quantization, int64_t inputs);

/// Rounds to f16, to nearest even; values beyond its range become infinity.
f16 to_f16(float value);

/// The largest finite e4m3 ("FP8 Formats for Deep Learning", arXiv 2209.05433): a sign, four bits of exponent
/// with bias 7 and three of mantissa; no infinities, and NaN if all seven bits are set.
inline constexpr float kLargestE4m3 = 448;

/// Rounds to e4m3, to nearest even. Values beyond its range saturate with their sign; NaN stays NaN.
uint8_t to_e4m3(float value);
float from_e4m3(uint8_t code);

/// Quantizes one row.
/// 8 bits: the largest magnitude of a group is 127 from the zero point; with minimums, its smallest and
/// largest weight are the ends of the range. In e4m3, the largest magnitude is kLargestE4m3 times the scale.
/// 4 bits: a short search, which starts with scales that put the extremes near the ends of the range, fits
/// each scale by least squares and keeps the smallest squared error.
/// Two levels: the output's weights are spread over 240 values. A group takes the scale and minimum near its
/// extremes with the smallest squared error.
/// A group that holds NaN or infinity becomes NaN; with two levels, the whole output does.
///   row  [inputs]    out  resized as needed
void quantize(const Quantization& quantization, std::span<const float> row, QuantizedRow& out);

/// Dequantizes a row to exactly the weights that matmuls use in f32.
///   out  [inputs]
void dequantize(const Quantization& quantization, const QuantizedRow& row, std::span<float> out);

}  // namespace lacuna
