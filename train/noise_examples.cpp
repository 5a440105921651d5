// Interpolated noise: interpolation_examples() of objective.h.
#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "train/objective_parts.h"

namespace lacuna::train {
namespace {

// Kinds of rows of the objective kInterpolation; the rest is "each".
constexpr double kWholeShare = 0.4;
constexpr double kWindowShare = 0.4;
constexpr int64_t kShortestWindow = 4;  // kWindowSizes sizes, each double the one before
constexpr uint32_t kWindowSizes = 4;

/// The noisy part of a row: tokens before `begin` stay clean, those from `end` on are pure noise.
struct NoisyWindow {
  int64_t begin = 0;
  int64_t end = 0;
  bool has_own_levels = false;  ///< each token has its own noise level; otherwise the row has one
};

/// The random numbers of one step, by purpose.
class NoiseStreams {
 public:
  NoiseStreams(const ObjectiveOptions& options, uint64_t step) : options_(options), step_(step) {}

  ///   first  first position of the row's response
  NoisyWindow window(int64_t row, int64_t first, int64_t length) const {
    const auto index = static_cast<uint64_t>(row);
    const double kind = stream(kNoiseKind).uniform(index);
    NoisyWindow window{first, length, kind >= kWholeShare + kWindowShare};
    if (kind < kWholeShare || window.has_own_levels) return window;
    const int64_t places = std::min(options_.canvas, length - first);
    window.begin += stream(kNoiseBegin).below(index, static_cast<uint32_t>(places));
    const int64_t size = kShortestWindow << stream(kNoiseWindow).below(index, kWindowSizes);
    window.end = std::min(length, window.begin + size);
    return window;
  }
  double level(uint64_t coordinate) const { return stream(kNoiseLevel).uniform(coordinate); }
  double coin(uint64_t coordinate) const { return stream(kNoiseCoin).uniform(coordinate); }
  /// A uniform random token with probability `share`, else the mask.
  int64_t noise(uint64_t coordinate, double share) const {
    return stream(kNoiseIsUniform).uniform(coordinate) < share ? token(coordinate) : options_.mask_id;
  }
  /// Any token but the mask.
  int64_t token(uint64_t coordinate) const {
    const int64_t sampled =
        stream(kNoiseToken).below(coordinate, static_cast<uint32_t>(options_.vocabulary - 1));
    return sampled + (sampled >= options_.mask_id ? 1 : 0);
  }

 private:
  RngStream stream(Purpose purpose) const { return RngStream(options_.seed, purpose, step_); }

  const ObjectiveOptions& options_;
  uint64_t step_;
};

}  // namespace

double uniform_share(double log_snr, double shift) {
  if (std::abs(shift) >= kPureNoise) return shift > 0 ? 1 : 0;
  return 1 / (1 + std::exp(-(log_snr + shift)));
}

double noise_weight(bool is_kept, bool is_mask, double log_snr, double share, int64_t others) {
  if (is_mask) return 1 + share;
  return is_kept ? share * share / (share + static_cast<double>(others) * std::exp(log_snr)) : share;
}

Examples interpolation_examples(const FamilyTraits& family, const Batch& batch,
                                const ObjectiveOptions& options, uint64_t step) {
  const int64_t rows = batch.tokens.size(0);
  const int64_t length = batch.tokens.size(1);
  const std::vector<double> ratios = spread_ratios(rows, options.seed, step);
  const NoiseStreams noise(options, step);
  torch::Tensor inputs = batch.tokens.clone();
  torch::Tensor clean = torch::zeros_like(batch.response);
  std::vector<int64_t> predicting, targets;
  std::vector<double> weights;
  std::vector<float> log_snr;
  std::vector<float> uniform_shares;
  const double shift = options.uniform_shift.value_or(family.uniform_noise ? kPureNoise : -kPureNoise);
  double total = 0;  // sum of the weights of tokens to learn
  for (int64_t row = 0; row < rows; ++row) {
    const bool* const response = batch.response.data_ptr<bool>() + row * length;
    int64_t* const tokens = inputs.data_ptr<int64_t>() + row * length;
    const NoisyWindow window =
        noise.window(row, std::find(response, response + length, true) - response, length);
    bool* const is_clean = clean.data_ptr<bool>() + row * length;
    std::fill(is_clean, is_clean + window.begin, true);
    for (int64_t at = window.begin; at < length; ++at) {
      if (!response[at] && at < window.end) {
        is_clean[at] = true;
        continue;
      }
      const auto coordinate = static_cast<uint64_t>(row * length + at);
      const double t = window.has_own_levels ? noise.level(coordinate) : ratios[static_cast<size_t>(row)];
      const double snr = std::clamp(std::log((1 - t) / t), -kMaxLogSnr, kMaxLogSnr);
      const double alpha = at < window.end ? 1 / (1 + std::exp(-snr)) : 0;
      const int64_t target = tokens[at];
      const double share = at < window.end ? uniform_share(snr, shift) : uniform_share(-kMaxLogSnr, shift);
      if (noise.coin(coordinate) >= alpha) tokens[at] = noise.noise(coordinate, share);
      if (at >= window.end || !response[at]) continue;
      const double weight = weight_of(batch, row, at);
      total += weight;
      const double of_noise = noise_weight(tokens[at] == target, tokens[at] == options.mask_id, snr, share,
                                           options.vocabulary - 1);
      const bool masks_alone = share == 0;
      if (masks_alone && tokens[at] == target) continue;  // no loss
      predicting.push_back(row * length + at);
      targets.push_back(target);
      weights.push_back(weight * of_noise * (masks_alone ? alpha : 1));
      uniform_shares.push_back(static_cast<float>(share));
      log_snr.push_back(static_cast<float>(snr));
    }
  }
  const torch::Tensor scaled = torch::tensor(weights, torch::kFloat64) / std::max(total, kTailWeight);
  Examples examples{inputs,
                    {},
                    clean.unsqueeze(2).logical_and(clean.logical_not().unsqueeze(1)).unsqueeze(1),
                    to_tensor(predicting),
                    to_tensor(targets),
                    scaled.to(torch::kFloat32),
                    options.mask_id,
                    {}};
  if (shift > -kPureNoise) {
    examples.log_snr = torch::tensor(log_snr, torch::kFloat32);
    examples.uniform_shares = torch::tensor(uniform_shares, torch::kFloat32);
  }
  return examples;
}

}  // namespace lacuna::train
