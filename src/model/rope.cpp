#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace lacuna {
namespace {

/// The range of pairs over which frequencies change from unscaled to scaled; ends may be fractional.
struct Ramp {
  double begin = 0;
  double width = 1;

  /// 0 for high frequencies, 1 for low ones.
  double at(size_t pair) const { return std::clamp((static_cast<double>(pair) - begin) / width, 0.0, 1.0); }
};

Ramp yarn_ramp(const RopeConfig& rope, int64_t rotary_dim) {
  // The pair with this many turns in the original context.
  const auto pair_of_turns = [&](double turns) {
    const double positions_per_radian =
        static_cast<double>(rope.original_positions) / (turns * 2 * std::numbers::pi);
    return static_cast<double>(rotary_dim) * std::log(positions_per_radian) /
           (2 * std::log(static_cast<double>(rope.theta)));
  };
  double begin = pair_of_turns(rope.beta_fast);
  double end = pair_of_turns(rope.beta_slow);
  if (rope.whole_ramp) {
    begin = std::floor(begin);
    end = std::ceil(end);
  }
  begin = std::max(begin, 0.0);
  end = std::min(end, static_cast<double>(rotary_dim - 1));
  return {begin, end == begin ? 0.001 : end - begin};
}

float llama3_frequency(const RopeConfig& rope, float fast) {
  const auto context = static_cast<float>(rope.original_positions);
  const float wavelength = static_cast<float>(2 * std::numbers::pi) / fast;
  if (wavelength < context / rope.high_turns) return fast;
  if (wavelength > context / rope.low_turns) return fast / rope.factor;
  const float turns = context / wavelength;
  const float share_of_fast = (turns - rope.low_turns) / (rope.high_turns - rope.low_turns);
  return (1 - share_of_fast) * fast / rope.factor + share_of_fast * fast;
}

}  // namespace

void scale_rope(RopeConfig& rope, double factor, int64_t rotary_dim) {
  expects(factor >= 1, "scale_rope: a context only grows");
  if (rotary_dim <= 2) {
    throw InputError("RoPE turns {} dimensions of a head; expected at least 4 where its context is stretched",
                     rotary_dim);
  }
  const auto dims = static_cast<double>(rotary_dim);
  const double f = rope.scaling == RopeConfig::Scaling::kDynamic ? double{rope.factor} : 1.0;
  const double slower = f * factor - (f - 1);
  rope.theta = static_cast<float>(double{rope.theta} * std::pow(slower, dims / (dims - 2)));
}

float query_scale(const RopeConfig& rope, int64_t position) {
  const int64_t times = rope.query_growth == 0 ? 0 : position / rope.original_positions;
  return times == 0 ? 1 : 1 + rope.query_growth * std::log1p(static_cast<float>(times));
}

std::vector<float> rope_frequencies(const RopeConfig& rope, int64_t rotary_dim) {
  const Ramp ramp = rope.scaling == RopeConfig::Scaling::kYarn ? yarn_ramp(rope, rotary_dim) : Ramp();
  std::vector<float> frequencies(static_cast<size_t>(rotary_dim / 2));
  for (size_t j = 0; j < frequencies.size(); ++j) {
    if (rope.num_rotated_pairs > 0 && static_cast<int64_t>(j) >= rope.num_rotated_pairs) break;
    const float exponent = static_cast<float>(2 * j) / static_cast<float>(rotary_dim);
    const auto period =
        static_cast<float>(std::pow(static_cast<double>(rope.theta), static_cast<double>(exponent)));
    const float fast = 1 / period;
    switch (rope.scaling) {
      case RopeConfig::Scaling::kNone:
      case RopeConfig::Scaling::kDynamic:
        frequencies[j] = fast;
        break;
      case RopeConfig::Scaling::kLinear:
        frequencies[j] = fast / rope.factor;
        break;
      case RopeConfig::Scaling::kYarn: {
        const double share_of_slow = ramp.at(j);
        const float slow = 1 / (rope.factor * period);
        frequencies[j] = static_cast<float>(slow * share_of_slow + fast * (1 - share_of_slow));
        break;
      }
      case RopeConfig::Scaling::kLlama3:
        frequencies[j] = llama3_frequency(rope, fast);
        break;
    }
    if (!rope.divisors.empty()) frequencies[j] /= rope.divisors[j];
  }
  return frequencies;
}

}  // namespace lacuna
