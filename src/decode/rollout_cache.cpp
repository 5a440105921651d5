#include "decode/rollout_cache.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace lacuna {

RolloutCache::RolloutCache(const D2Cache& policy, bool measures_entropy, const Canvas& canvas)
    : policy_(policy),
      measures_entropy_(measures_entropy),
      confidences_(static_cast<size_t>(canvas.length())) {
  constexpr double kReach = 6;  // standard deviations
  for (int32_t distance = 0; distance <= kReach * policy.sigma; ++distance)
    weights_.push_back(std::exp(-0.5 * std::pow(distance / policy.sigma, 2)));
}

void RolloutCache::see(std::span<const Commit> predicted, std::span<const double> rollout) {
  expects(rollout.size() == confidences_.size(), "a pass gives a share for each position");
  for (const Commit& mask : predicted) {
    confidences_[static_cast<size_t>(mask.position)] =
        measures_entropy_ ? std::exp(mask.confidence) : std::max(mask.confidence, 0.0);
  }
  rollout_.assign(rollout.begin(), rollout.end());
}

double RolloutCache::density(const Canvas& canvas, int32_t position) const {
  const auto is_known = [&](int32_t at) {
    return at < 0 || canvas.is_known(std::min(at, canvas.length() - 1));
  };
  double known = 0, all = 0;
  for (int32_t distance = 0; distance < std::ssize(weights_); ++distance) {
    const double weight = weights_[static_cast<size_t>(distance)];
    const int sides = distance == 0 ? 1 : 2;
    all += sides * weight;
    if (is_known(position - distance)) known += weight;
    if (sides == 2 && is_known(position + distance)) known += weight;
  }
  return known / all;
}

std::vector<int32_t> RolloutCache::choose(const Canvas& canvas, const Block& block,
                                          std::span<const int32_t> masks, size_t num_candidates,
                                          int32_t least) {
  const int32_t length = canvas.length(), passes = canvas.num_passes();
  if (passes == 0 || (policy_.refresh > 0 && passes % policy_.refresh == 0)) {
    rows_ = positions_in(0, length);
    return {masks.begin(), masks.end()};
  }
  is_computed_.assign(static_cast<size_t>(length), false);
  choose_masks(canvas, block, masks, num_candidates, least);
  for (int32_t position = 0; position < length; ++position) {
    if (!canvas.is_masked(position) && canvas.age(position) == 0)  // written since
      is_computed_[static_cast<size_t>(position)] = true;
  }
  choose_others();
  inflate();
  rows_.clear();
  for (int32_t row = 0; row < length; ++row) {
    if (is_computed_[static_cast<size_t>(row)]) rows_.push_back(row);
  }
  std::vector<int32_t> predicted(masks.begin(), masks.end());
  std::erase_if(predicted,
                [&](int32_t mask) { return !is_computed_[static_cast<size_t>(canvas.predictor(mask))]; });
  return predicted;
}

void RolloutCache::choose_masks(const Canvas& canvas, const Block& block, std::span<const int32_t> masks,
                                size_t num_candidates, int32_t least) {
  const int32_t count = std::max(policy_.current, least);
  int32_t end = block.end;
  while (end < canvas.length() && canvas.count_masked(0, end) < policy_.current)
    end = std::min(end + block.end - block.begin, canvas.length());
  struct Scored {
    int32_t position;
    bool is_candidate;
    double score;
  };
  std::vector<Scored> scored;
  for (size_t i = 0; i < masks.size() && (i < num_candidates || masks[i] < end); ++i) {
    const double confidence = confidences_[static_cast<size_t>(masks[i])];
    scored.push_back({masks[i], i < num_candidates, confidence * density(canvas, masks[i])});
  }
  std::ranges::stable_sort(scored, [](const Scored& a, const Scored& b) {
    return std::pair(a.is_candidate, a.score) > std::pair(b.is_candidate, b.score);
  });
  scored.resize(std::min(scored.size(), static_cast<size_t>(count)));
  for (const Scored& each : scored) is_computed_[static_cast<size_t>(canvas.predictor(each.position))] = true;
}

void RolloutCache::choose_others() {
  std::vector<size_t> others;
  double total = 0;
  for (size_t row = 0; row < rollout_.size(); ++row) {
    if (is_computed_[row]) continue;
    others.push_back(row);
    total += rollout_[row];
  }
  std::ranges::stable_sort(others, std::greater<>(), [&](size_t row) { return rollout_[row]; });
  double sum = 0;
  for (size_t i = 0; i < others.size(); ++i) {
    sum += rollout_[others[i]];
    if (i > 0 && sum > policy_.rollout * total) break;
    is_computed_[others[i]] = true;
  }
}

void RolloutCache::inflate() {
  int32_t last = -1;
  for (int32_t row = 0; row < std::ssize(is_computed_); ++row) {
    if (!is_computed_[static_cast<size_t>(row)]) continue;
    for (int32_t gap = last + 1; last >= 0 && row - last <= policy_.inflate && gap < row; ++gap)
      is_computed_[static_cast<size_t>(gap)] = true;
    last = row;
  }
}

}  // namespace lacuna
