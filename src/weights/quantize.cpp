#include "weights/quantize.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace lacuna {
namespace {

/// Scale and minimum of one group.
struct Fit {
  float scale = 0;
  float minimum = 0;
};

float stored(const Quantization& quantization, float value) {
  return quantization.wide_scales ? value : static_cast<float>(to_f16(value));
}

/// Zero point of a format without minimums.
float middle_code(const Quantization& quantization) {
  return quantization.has_minimum ? 0 : static_cast<float>(1 << (quantization.bits - 1));
}

/// Minimum of a group in a format without minimums.
float centred_minimum(const Quantization& quantization, float scale) {
  return -middle_code(quantization) * scale;
}

/// Rounds a scale to its stored type.
Fit stored(const Quantization& quantization, const Fit& fit) {
  const float scale = stored(quantization, fit.scale);
  return {scale, quantization.has_minimum ? stored(quantization, fit.minimum)
                                          : centred_minimum(quantization, scale)};
}

/// Returns term(0) + ... + term(count - 1), in an order that vectorizes.
template <typename Term>
float sum(size_t count, const Term& term) {
  float total = 0;
#pragma omp simd reduction(+ : total)
  for (size_t i = 0; i < count; ++i) total += term(i);
  return total;
}

/// Rounds to the nearest quantized values, as floats. Returns the sum of squared errors.
float encode(const Quantization& quantization, Fit fit, std::span<const float> group,
             std::span<float> codes) {
  if (!std::isfinite(fit.scale) || fit.scale == 0) {
    std::fill(codes.begin(), codes.end(), middle_code(quantization));
  } else {
    const float most = static_cast<float>((1 << quantization.bits) - 1);
    const float inverse = 1 / fit.scale;
    for (size_t i = 0; i < group.size(); ++i) {
      const float place = (group[i] - fit.minimum) * inverse + 0.5F;
      const float held = std::min(most, std::max(0.0F, place));  // in this order NaN becomes 0
      codes[i] = static_cast<float>(static_cast<int32_t>(held));
    }
  }
  return sum(group.size(), [=](size_t i) {
    const float miss = group[i] - (fit.scale * codes[i] + fit.minimum);
    return miss * miss;
  });
}

/// Least-squares scale and minimum for these quantized values.
Fit refit(const Quantization& quantization, const Fit& fit, std::span<const float> group,
          std::span<const float> codes) {
  const float middle = middle_code(quantization);
  const auto code = [=](size_t i) { return codes[i] - middle; };
  const float sum_cc = sum(group.size(), [=](size_t i) { return code(i) * code(i); });
  const float sum_cx = sum(group.size(), [=](size_t i) { return code(i) * group[i]; });
  if (!quantization.has_minimum) return sum_cc > 0 ? Fit{sum_cx / sum_cc, 0} : fit;
  const auto n = static_cast<float>(group.size());
  const float sum_c = sum(group.size(), code);
  const float sum_x = sum(group.size(), [=](size_t i) { return group[i]; });
  const float determinant = n * sum_cc - sum_c * sum_c;
  if (determinant <= 0) return fit;
  const float scale = (n * sum_cx - sum_c * sum_x) / determinant;
  return {scale, (sum_x - scale * sum_c) / n};
}

// Starting points of the search for a group of 4-bit values. Relative error of normally distributed weights:
// 0.081 (without minimum) and 0.070 (with one); with the first starting point alone 0.084 and 0.075. Three
// times as many improve it by at most 0.001.

/// Quantized value of the weight of largest magnitude, relative to the zero point: at the end of the range,
/// clipped a little, or at the other end.
constexpr std::array kExtremeCodes = {-8.0F, -8.5F, 7.25F};

/// Distance of the lowest and the highest quantized value from the smallest and largest weight, relative to
/// their difference.
struct Shift {
  float lowest;
  float highest;
};
constexpr std::array kShifts = {Shift{0, 0}, Shift{0.025F, 0.025F}, Shift{-0.025F, -0.025F},
                                Shift{0.025F, -0.025F}};

class GroupQuantizer {
 public:
  explicit GroupQuantizer(const Quantization& quantization) : quantization_(quantization) {}

  Fit run(std::span<const float> group, std::span<uint8_t> codes) {
    const bool finite =
        std::all_of(group.begin(), group.end(), [](float value) { return std::isfinite(value); });
    if (!finite) {
      std::fill(codes.begin(), codes.end(), uint8_t{0});
      return {std::numeric_limits<float>::quiet_NaN(), 0};
    }
    best_codes_.clear();
    const auto [least, most] = std::minmax_element(group.begin(), group.end());
    if (quantization_.has_minimum) {
      fit_between(*least, *most, group);
    } else {
      fit_around_zero(std::abs(*least) > *most ? *least : *most, group);
    }
    std::transform(best_codes_.begin(), best_codes_.end(), codes.begin(),
                   [](float code) { return static_cast<uint8_t>(code); });
    return best_;
  }

 private:
  /// With 256 values, the extremes determine the scale; with 16, a scale that clips them a little may have a
  /// smaller error.
  bool searches() const { return quantization_.bits == 4; }

  void fit_between(float least, float most, std::span<const float> group) {
    const auto highest_code = static_cast<float>((1 << quantization_.bits) - 1);
    for (const Shift& shift : kShifts) {
      const float range = (most - least) * (1 + shift.highest - shift.lowest);
      attempt({range / highest_code, least + (most - least) * shift.lowest}, group);
      if (!searches()) break;
    }
  }

  void fit_around_zero(float extreme, std::span<const float> group) {
    if (!searches()) return attempt({extreme / 127, 0}, group);
    for (const float code : kExtremeCodes) attempt({extreme / code, 0}, group);
  }

  void attempt(const Fit& fit, std::span<const float> group) {
    keep_if_better(fit, group);
    if (searches()) keep_if_better(refit(quantization_, fit, group, codes_), group);
  }

  void keep_if_better(const Fit& wanted, std::span<const float> group) {
    const Fit fit = stored(quantization_, wanted);
    codes_.resize(group.size());
    const float error = encode(quantization_, fit, group, codes_);
    // Keeps the first fit even if its error is NaN.
    if (!best_codes_.empty() && !(error < best_error_)) return;
    best_error_ = std::isnan(error) ? std::numeric_limits<float>::infinity() : error;
    best_ = fit;
    best_codes_ = codes_;
  }

  const Quantization& quantization_;
  std::vector<float> codes_;  // of the last fit
  std::vector<float> best_codes_;
  float best_error_ = 0;
  Fit best_;
};

/// Quantizes an output channel with two levels.
class TwoLevels {
 public:
  void run(std::span<const float> row, size_t group_length, QuantizedRow& out) {
    const bool finite = std::all_of(row.begin(), row.end(), [](float value) { return std::isfinite(value); });
    const auto [least, most] = std::minmax_element(row.begin(), row.end());
    // This order avoids overflow of the difference of two large values.
    const float step = finite && !row.empty() ? *most / kSteps - *least / kSteps : 0;
    const float inverse = step > 0 ? 1 / step : 0;
    values_.resize(row.size());
    for (size_t i = 0; i < row.size(); ++i) {
      const float value = row[i] * inverse - *least * inverse;
      values_[i] = std::isfinite(value) ? value : 0;
    }
    for (size_t g = 0; g < out.scales.size(); ++g) {
      const size_t begin = g * group_length;
      const size_t count = std::min(group_length, row.size() - begin);
      fit(std::span(values_).subspan(begin, count));
      out.scales[g] = best_.scale;
      out.minimums[g] = best_.minimum;
      std::copy(best_codes_.begin(), best_codes_.end(), out.codes.begin() + static_cast<int64_t>(begin));
    }
    out.of_output = {step, row.empty() ? 0 : *least};
    if (!finite) out.of_output = {std::numeric_limits<float>::quiet_NaN(), 0};
  }

 private:
  static constexpr float kMaxCode = 15;
  static constexpr float kMaxScale = 16;
  static constexpr float kSteps = kMaxScale * kMaxCode;
  static constexpr float kMaxValue = 255;

  void fit(std::span<const float> group) {
    const auto [least, most] = std::minmax_element(group.begin(), group.end());
    const float covering = std::ceil((*most - *least) / kMaxCode);
    best_error_ = std::numeric_limits<float>::infinity();
    const auto attempt_near = [&](float scale, float minimum) {
      const float held = std::clamp(std::nearbyint(minimum), 0.0F, kMaxValue - kMaxCode * scale);
      attempt({scale, held}, group);
    };
    for (const float fewer : {0.0F, 1.0F, 2.0F}) {
      const float scale = std::clamp(covering - fewer, 1.0F, kMaxScale);
      const float centred = (*least + *most - kMaxCode * scale) / 2;
      for (const float shift : {0.0F, -0.3F, 0.3F}) attempt_near(scale, centred + shift * scale);
    }
    for (const float step : {0.2F, 0.1F}) {
      const Fit best = best_;
      for (const float shift : {-step, step}) attempt_near(best.scale, best.minimum + shift * best.scale);
    }
  }

  void attempt(const Fit& fit, std::span<const float> group) {
    codes_.resize(group.size());
    const float inverse = 1 / fit.scale;
    for (size_t i = 0; i < group.size(); ++i) {
      const float place = (group[i] - fit.minimum) * inverse + 0.5F;
      codes_[i] = static_cast<uint8_t>(std::min(kMaxCode, std::max(0.0F, place)));
    }
    const float error = sum(group.size(), [&](size_t i) {
      const float miss = group[i] - (fit.scale * static_cast<float>(codes_[i]) + fit.minimum);
      return miss * miss;
    });
    if (!(error < best_error_)) return;
    best_error_ = error;
    best_ = fit;
    best_codes_.swap(codes_);
  }

  std::vector<float> values_;  // values of all weights before rounding
  std::vector<uint8_t> codes_, best_codes_;
  float best_error_ = 0;
  Fit best_;
};

/// Divides by the scale because its inverse overflows for tiny weights.
void quantize_to_e4m3(std::span<const float> row, QuantizedRow& out) {
  const bool finite = std::all_of(row.begin(), row.end(), [](float value) { return std::isfinite(value); });
  float largest = 0;
  for (const float value : row) largest = std::max(largest, std::abs(value));
  const float scale = finite ? largest / kLargestE4m3 : std::numeric_limits<float>::quiet_NaN();
  out.scales.front() = scale;
  std::transform(row.begin(), row.end(), out.codes.begin(),
                 [=](float value) { return scale > 0 ? to_e4m3(value / scale) : uint8_t{0}; });
}

}  // namespace

int64_t num_groups(const Quantization& quantization, int64_t inputs) {
  return quantization.group == 0 ? 1 : (inputs + quantization.group - 1) / quantization.group;
}

void QuantizedRow::resize(const Quantization& quantization, int64_t inputs) {
  const auto groups = static_cast<size_t>(num_groups(quantization, inputs));
  codes.resize(static_cast<size_t>(inputs));
  scales.resize(groups);
  minimums.resize(quantization.has_minimum ? groups : 0);
}

f16 to_f16(float value) {
  constexpr uint32_t kLowestNormal = 113U << 23;  // 2^-14
  constexpr uint32_t kBeyond = 143U << 23;        // 2^16
  const auto word = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (word >> 16) & 0x8000U;
  const uint32_t magnitude = word & 0x7fffffffU;
  f16 result;
  if (magnitude >= kBeyond) {
    const bool is_nan = magnitude > 0x7f800000U;
    result.bits = static_cast<uint16_t>(sign | (is_nan ? 0x7e00U : 0x7c00U));
  } else if (magnitude < kLowestNormal) {
    // The addition rounds to multiples of 2^-24, the smallest subnormal f16.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    result.bits = static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - (126U << 23)));
  } else {
    const uint32_t rounded = magnitude - (112U << 23) + 0xfffU + ((magnitude >> 13) & 1U);
    result.bits = static_cast<uint16_t>(sign | (rounded >> 13));
  }
  return result;
}

uint8_t to_e4m3(float value) {
  constexpr uint32_t kLowestNormal = 121U << 23;  // 2^-6
  constexpr float kRounding = 0x1p14F;  // its unit in the last place is 2^-9, the smallest subnormal e4m3
  const auto word = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (word >> 24) & 0x80U;
  const uint32_t magnitude = word & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<uint8_t>(sign | 0x7fU);
  if (magnitude >= std::bit_cast<uint32_t>(kLargestE4m3)) return static_cast<uint8_t>(sign | 0x7eU);
  if (magnitude < kLowestNormal) {
    const float shifted = std::bit_cast<float>(magnitude) + kRounding;
    return static_cast<uint8_t>(sign |
                                (std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kRounding)));
  }
  const uint32_t rounded = magnitude - (120U << 23) + 0x7ffffU + ((magnitude >> 20) & 1U);
  return static_cast<uint8_t>(sign | (rounded >> 20));
}

float from_e4m3(uint8_t code) {
  const uint32_t sign = (code & 0x80U) << 24;
  const uint32_t magnitude = code & 0x7fU;
  if (magnitude == 0x7fU) return std::numeric_limits<float>::quiet_NaN();
  // The shifted bits are 2^-120 times the value; exact also for subnormals.
  return std::bit_cast<float>(sign | (magnitude << 20)) * 0x1p120F;
}

void quantize(const Quantization& quantization, std::span<const float> row, QuantizedRow& out) {
  out.resize(quantization, static_cast<int64_t>(row.size()));
  if (quantization.is_e4m3) return quantize_to_e4m3(row, out);
  const size_t length = quantization.group == 0 ? row.size() : static_cast<size_t>(quantization.group);
  if (quantization.two_levels) return TwoLevels().run(row, length, out);
  GroupQuantizer quantizer(quantization);
  for (size_t g = 0; g < out.scales.size(); ++g) {
    const size_t begin = g * length;
    const size_t count = std::min(length, row.size() - begin);
    const Fit fit = quantizer.run(row.subspan(begin, count), std::span(out.codes).subspan(begin, count));
    out.scales[g] = fit.scale;
    if (quantization.has_minimum) out.minimums[g] = fit.minimum;
  }
}

void dequantize(const Quantization& quantization, const QuantizedRow& row, std::span<float> out) {
  if (quantization.is_e4m3) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = row.scales.front() * from_e4m3(row.codes[i]);
    return;
  }
  const size_t length = quantization.group == 0 ? out.size() : static_cast<size_t>(quantization.group);
  for (size_t g = 0; g < row.scales.size(); ++g) {
    const float scale = row.scales[g];
    const size_t end = std::min((g + 1) * length, out.size());
    if (!quantization.has_minimum) {
      // Equals a minimum of -middle * scale, which could overflow although no weight does.
      for (size_t i = g * length; i < end; ++i)
        out[i] = scale * (static_cast<float>(row.codes[i]) - middle_code(quantization));
      continue;
    }
    for (size_t i = g * length; i < end; ++i)
      out[i] = std::fma(scale, static_cast<float>(row.codes[i]), row.minimums[g]);
  }
  if (!quantization.two_levels) return;
  for (float& value : out) value = std::fma(row.of_output.scale, value, row.of_output.minimum);
}

}  // namespace lacuna
