// Noise levels of a block before and after each step, for models with interpolating noise (GIDD, Sumi).
#pragma once

#include <cstdint>

#include "base/token.h"
#include "model/config.h"

namespace lacuna {

enum class NoiseCurve : uint8_t { kCosine, kLinear };

/// q(z | x) = alpha [z = x] + (1 - alpha) pi(z) (GIDD, arXiv 2503.04482, section 3).
struct NoiseLevel {
  double alpha = 1;
  double uniform =
      1;  ///< share of pi that is spread evenly over all tokens but the mask; the mask has the rest
};

/// Tokens of the vocabulary over which uniform noise is spread: all but the mask, if there is one.
constexpr int64_t num_noise_tokens(int64_t vocab_size, TokenId mask_id) {
  return vocab_size - (mask_id >= 0 ? 1 : 0);
}

/// Levels 0 (clean) to `steps` (pure noise) of a block, evenly spaced along the curve between the process's
/// ends. docs/methods/uniform_diffusion.md, section 2; of a whole canvas, section 6.
class NoiseSchedule {
 public:
  NoiseSchedule(const NoiseProcess& process, NoiseCurve curve, int32_t steps);

  NoiseLevel level(int32_t index) const;

 private:
  double alpha(double u) const;

  NoiseProcess process_;
  NoiseCurve curve_;
  int32_t steps_;
};

/// pi(token) of a level.
///   num_tokens  num_noise_tokens()
double prior(const NoiseLevel& level, bool is_mask, int64_t num_tokens);

/// Distribution of a token z after the exact ancestral step from one level to a cleaner one, with the model's
/// prediction in place of the clean token: a mixture of three, without a vocabulary-wide posterior.
struct AncestralMixture {
  double stay = 1;     ///< z stays
  double predict = 0;  ///< a sample from the prediction; otherwise a sample from the cleaner level's prior
};

///   prediction_of_z  the model's probability of z     num_tokens  num_noise_tokens()
AncestralMixture ancestral_mixture(const NoiseLevel& noisier, const NoiseLevel& cleaner, bool z_is_mask,
                                   double prediction_of_z, int64_t num_tokens);

}  // namespace lacuna
