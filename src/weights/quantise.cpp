#include "weights/quantise.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace lacuna {
namespace {

/// One group's scale and minimum.
struct Fit {
  float scale = 0;
  float minimum = 0;
};

float stored(const Quantisation& quantisation, float value) {
  return quantisation.wide_scales ? value : static_cast<float>(to_f16(value));
}

/// What an absent minimum stands for.
float centred_minimum(const Quantisation& quantisation, float scale) {
  return static_cast<float>(-(1 << (quantisation.bits - 1))) * scale;
}

/// As it will be stored.
Fit stored(const Quantisation& quantisation, const Fit& fit) {
  const float scale = stored(quantisation, fit.scale);
  return {scale, quantisation.has_minimum ? stored(quantisation, fit.minimum)
                                          : centred_minimum(quantisation, scale)};
}

/// The nearest codes. Returns the sum of squared errors.
double encode(const Quantisation& quantisation, const Fit& fit, std::span<const float> group,
              std::span<uint8_t> codes) {
  const float most = static_cast<float>((1 << quantisation.bits) - 1);
  const bool usable = std::isfinite(fit.scale) && fit.scale != 0;
  const float inverse = usable ? 1 / fit.scale : 0;
  const auto middle = static_cast<uint8_t>(quantisation.has_minimum ? 0 : 1 << (quantisation.bits - 1));
  double error = 0;
  for (size_t i = 0; i < group.size(); ++i) {
    const float place = (group[i] - fit.minimum) * inverse + 0.5F;
    // Written so that NaN falls out.
    const float held = place > 0 ? (place < most ? place : most) : 0;
    codes[i] = usable ? static_cast<uint8_t>(held) : middle;
    const double miss = double{group[i]} - (double{fit.scale} * codes[i] + fit.minimum);
    error += miss * miss;
  }
  return error;
}

/// The scale, and minimum, that least squares gives for these codes.
Fit refit(const Quantisation& quantisation, const Fit& fit, std::span<const float> group,
          std::span<const uint8_t> codes) {
  const double middle = quantisation.has_minimum ? 0 : 1 << (quantisation.bits - 1);
  double n = 0;
  double sum_c = 0;
  double sum_cc = 0;
  double sum_x = 0;
  double sum_cx = 0;
  for (size_t i = 0; i < group.size(); ++i) {
    const double c = codes[i] - middle;
    n += 1;
    sum_c += c;
    sum_cc += c * c;
    sum_x += group[i];
    sum_cx += c * group[i];
  }
  if (!quantisation.has_minimum) return sum_cc > 0 ? Fit{static_cast<float>(sum_cx / sum_cc), 0} : fit;
  const double determinant = n * sum_cc - sum_c * sum_c;
  if (determinant <= 0) return fit;
  const double scale = (n * sum_cx - sum_c * sum_x) / determinant;
  return {static_cast<float>(scale), static_cast<float>((sum_x - scale * sum_c) / n)};
}

class GroupQuantiser {
 public:
  explicit GroupQuantiser(const Quantisation& quantisation) : quantisation_(quantisation) {}

  Fit run(std::span<const float> group, std::span<uint8_t> codes) {
    best_error_ = std::numeric_limits<double>::infinity();
    best_ = {};
    const auto [least, most] = std::minmax_element(group.begin(), group.end());
    const bool finite =
        std::all_of(group.begin(), group.end(), [](float value) { return std::isfinite(value); });
    if (!finite) {
      best_ = {std::numeric_limits<float>::quiet_NaN(), 0};
      std::fill(codes.begin(), codes.end(), uint8_t{0});
      return best_;
    }
    if (quantisation_.has_minimum) {
      attempt({(*most - *least) / static_cast<float>((1 << quantisation_.bits) - 1), *least}, group, codes);
      return best_;
    }
    const float extreme = std::abs(*least) > *most ? *least : *most;
    const auto half = static_cast<float>(1 << (quantisation_.bits - 1));
    attempt({extreme / (half - 1), 0}, group, codes);
    // The range reaches one step further below the middle: the extreme may lie there.
    if (quantisation_.bits == 4) attempt({-extreme / half, 0}, group, codes);
    return best_;
  }

 private:
  void attempt(const Fit& fit, std::span<const float> group, std::span<uint8_t> codes) {
    keep_if_better(fit, group, codes);
    // With 256 codes the extreme decides; with 16, a scale that cuts it off a little may serve the others.
    if (quantisation_.bits == 4) keep_if_better(refit(quantisation_, fit, group, trial_), group, codes);
  }

  void keep_if_better(const Fit& wanted, std::span<const float> group, std::span<uint8_t> codes) {
    const Fit fit = stored(quantisation_, wanted);
    trial_.resize(group.size());
    const double error = encode(quantisation_, fit, group, trial_);
    if (error >= best_error_) return;
    best_error_ = error;
    best_ = fit;
    std::copy(trial_.begin(), trial_.end(), codes.begin());
  }

  const Quantisation& quantisation_;
  std::vector<uint8_t> trial_;
  double best_error_ = 0;
  Fit best_;
};

}  // namespace

int64_t num_groups(const Quantisation& quantisation, int64_t inputs) {
  return quantisation.group == 0 ? 1 : (inputs + quantisation.group - 1) / quantisation.group;
}

void QuantisedRow::resize(const Quantisation& quantisation, int64_t inputs) {
  const auto groups = static_cast<size_t>(num_groups(quantisation, inputs));
  codes.resize(static_cast<size_t>(inputs));
  scales.resize(groups);
  minimums.resize(quantisation.has_minimum ? groups : 0);
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
    // The addition rounds to multiples of 2^-24, f16's smallest step.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    result.bits = static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - (126U << 23)));
  } else {
    const uint32_t rounded = magnitude - (112U << 23) + 0xfffU + ((magnitude >> 13) & 1U);
    result.bits = static_cast<uint16_t>(sign | (rounded >> 13));
  }
  return result;
}

void quantise(const Quantisation& quantisation, std::span<const float> row, QuantisedRow& out) {
  out.resize(quantisation, static_cast<int64_t>(row.size()));
  const size_t length = quantisation.group == 0 ? row.size() : static_cast<size_t>(quantisation.group);
  GroupQuantiser quantiser(quantisation);
  for (size_t g = 0; g < out.scales.size(); ++g) {
    const size_t begin = g * length;
    const size_t count = std::min(length, row.size() - begin);
    const Fit fit = quantiser.run(row.subspan(begin, count), std::span(out.codes).subspan(begin, count));
    out.scales[g] = fit.scale;
    if (quantisation.has_minimum) out.minimums[g] = fit.minimum;
  }
}

void dequantise(const Quantisation& quantisation, const QuantisedRow& row, std::span<float> out) {
  const size_t length = quantisation.group == 0 ? out.size() : static_cast<size_t>(quantisation.group);
  for (size_t g = 0; g < row.scales.size(); ++g) {
    const float scale = row.scales[g];
    const float minimum = quantisation.has_minimum ? row.minimums[g] : centred_minimum(quantisation, scale);
    const size_t end = std::min((g + 1) * length, out.size());
    for (size_t i = g * length; i < end; ++i)
      out[i] = std::fma(scale, static_cast<float>(row.codes[i]), minimum);
  }
}

}  // namespace lacuna
