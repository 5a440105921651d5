// From rows of weights to codes and scales, and back.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "kernels/panels.h"

namespace lacuna {

/// One output's weights: weight k = scales[g] * codes[k] + minimums[g] for its group g, in f32; see
/// Quantisation for what an absent minimum means. With two levels that is value k, and
/// weight k = of_output.scale * value k + of_output.minimum.
struct QuantisedRow {
  std::vector<uint8_t> codes;   ///< [inputs], below 2^bits
  std::vector<float> scales;    ///< [groups]; numbers that f16 holds, unless wide_scales; with two levels
                                ///< whole numbers
  std::vector<float> minimums;  ///< [groups], likewise; empty without minimums
  OutputScale of_output;        ///< with two levels

  void resize(const Quantisation& quantisation, int64_t inputs);
};

/// Groups of one output; the last may be shorter than the others.
int64_t num_groups(const Quantisation& quantisation, int64_t inputs);

/// Rounds to nearest even; beyond the range of f16 to infinity.
f16 to_f16(float value);

/// Codes of 8 bits: the largest magnitude of a group gets code 127 from the middle, or its least and greatest
/// weight the ends of the range. Of 4 bits: a short search, which begins with scales that put the extremes
/// near the ends of the range, fits each to its codes by least squares, and keeps the smallest squared error.
/// With two levels, the output's weights are spread over 240 values, and a group takes the scale and minimum
/// of least squared error among those that come near its extremes.
/// A group that holds NaN or infinity becomes NaN; with two levels the output does.
///   row  [inputs]    out  resized as needed
void quantise(const Quantisation& quantisation, std::span<const float> row, QuantisedRow& out);

/// Exactly the weights that products see in f32.
///   out  [inputs]
void dequantise(const Quantisation& quantisation, const QuantisedRow& row, std::span<float> out);

}  // namespace lacuna
