#include "decode/noise_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lacuna {
namespace {

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

}  // namespace

NoiseSchedule::NoiseSchedule(const NoiseProcess& process, NoiseCurve curve, int32_t steps)
    : process_(process), curve_(curve), steps_(steps) {}

double NoiseSchedule::alpha(double u) const {
  const bool is_cosine = curve_ == NoiseCurve::kCosine;
  const auto share = [&](double x) { return is_cosine ? (1 + std::cos(std::numbers::pi * x)) / 2 : 1 - x; };
  if (process_.whole_canvas) {
    const double cut = is_cosine ? 1e-3 : 1e-4;  // from either end of the curve
    return share(cut + (1 - 2 * cut) * u);
  }
  const double least = sigmoid(process_.min_log_snr);
  const double most = sigmoid(process_.max_log_snr);
  return least + (most - least) * share(u);
}

NoiseLevel NoiseSchedule::level(int32_t index) const {
  const double share = alpha(static_cast<double>(index) / steps_);
  const double log_snr =
      std::clamp(std::log(share / (1 - share)), double{process_.min_log_snr}, double{process_.max_log_snr});
  return {sigmoid(log_snr), sigmoid(log_snr + process_.uniform_shift)};
}

double prior(const NoiseLevel& level, bool is_mask, int64_t num_tokens) {
  return is_mask ? 1 - level.uniform : level.uniform / static_cast<double>(num_tokens);
}

AncestralMixture ancestral_mixture(const NoiseLevel& noisier, const NoiseLevel& cleaner, bool z_is_mask,
                                   double prediction_of_z, int64_t num_tokens) {
  // q(z_t | z_s) = r [z_t = z_s] + c(z_t); with it Bayes' rule splits into three terms.
  const double r = noisier.alpha / cleaner.alpha;
  const double noise_t = (1 - noisier.alpha) * prior(noisier, z_is_mask, num_tokens);
  const double noise_s = (1 - cleaner.alpha) * prior(cleaner, z_is_mask, num_tokens);
  const double c = std::max(0.0, noise_t - r * noise_s);
  const double total = noisier.alpha * prediction_of_z + noise_t;
  if (total <= 0) return {};  // a mask in a model that has never seen one
  return {r * (cleaner.alpha * prediction_of_z + noise_s) / total, c * cleaner.alpha / total};
}

}  // namespace lacuna
