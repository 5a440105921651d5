#include "model/router.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace lacuna {
namespace {

void score(const MoeConfig& moe, std::span<const float> logits, std::vector<float>& scores) {
  scores.resize(logits.size());
  if (moe.sigmoid_scores) {
    std::transform(logits.begin(), logits.end(), scores.begin(),
                   [](float logit) { return 1 / (1 + std::exp(-logit)); });
    return;
  }
  const float largest = *std::max_element(logits.begin(), logits.end());
  float sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) sum += scores[i] = std::exp(logits[i] - largest);
  for (float& value : scores) value /= sum;
}

/// Moves the `count` best of `indices` to the front, in order.
void sort_best(std::vector<int32_t>& indices, size_t count, const std::vector<float>& ranks) {
  const auto is_better = [&](int32_t a, int32_t b) {
    const float rank_a = ranks[static_cast<size_t>(a)];
    const float rank_b = ranks[static_cast<size_t>(b)];
    return rank_a != rank_b ? rank_a > rank_b : a < b;
  };
  std::partial_sort(indices.begin(), indices.begin() + static_cast<std::ptrdiff_t>(count), indices.end(),
                    is_better);
}

void fill_with_indices(std::vector<int32_t>& indices, size_t count) {
  indices.resize(count);
  for (size_t i = 0; i < count; ++i) indices[i] = static_cast<int32_t>(i);
}

float sum_of_two_largest(std::span<const float> values) {
  float first = -std::numeric_limits<float>::infinity();
  float second = first;
  for (const float value : values) {
    second = std::max(second, std::min(first, value));
    first = std::max(first, value);
  }
  return first + second;
}

/// Lists the experts of the best groups.
void find_candidates(const MoeConfig& moe, const std::vector<float>& ranks, std::vector<int32_t>& experts) {
  if (moe.num_groups == moe.groups_per_token) return fill_with_indices(experts, ranks.size());
  const auto num_groups = static_cast<size_t>(moe.num_groups);
  const size_t group_size = ranks.size() / num_groups;
  thread_local std::vector<float> group_ranks;
  thread_local std::vector<int32_t> groups;
  group_ranks.resize(num_groups);
  for (size_t group = 0; group < num_groups; ++group) {
    group_ranks[group] = sum_of_two_largest(std::span(ranks).subspan(group * group_size, group_size));
  }
  fill_with_indices(groups, num_groups);
  sort_best(groups, static_cast<size_t>(moe.groups_per_token), group_ranks);
  experts.clear();
  for (int64_t i = 0; i < moe.groups_per_token; ++i) {
    const size_t first = static_cast<size_t>(groups[static_cast<size_t>(i)]) * group_size;
    for (size_t expert = first; expert < first + group_size; ++expert) {
      experts.push_back(static_cast<int32_t>(expert));
    }
  }
}

}  // namespace

void choose_experts(const MoeConfig& moe, std::span<const float> logits, std::span<const float> bias,
                    std::span<const int32_t> pool, std::span<ExpertChoice> chosen) {
  thread_local std::vector<float> scores, ranks;
  thread_local std::vector<int32_t> experts;
  score(moe, logits, scores);
  ranks = scores;
  for (size_t i = 0; i < bias.size(); ++i) ranks[i] += bias[i];
  if (pool.empty()) {
    find_candidates(moe, ranks, experts);
  } else {
    experts.assign(pool.begin(), pool.end());
  }
  sort_best(experts, chosen.size(), ranks);

  float sum = 0;
  for (size_t i = 0; i < chosen.size(); ++i) sum += scores[static_cast<size_t>(experts[i])];
  constexpr float kNoDivisionByZero = 1e-20F;  // as in the reference
  const float scale = moe.routed_scale / (moe.normalize_weights ? sum + kNoDivisionByZero : 1);
  for (size_t i = 0; i < chosen.size(); ++i) {
    chosen[i] = {experts[i], scores[static_cast<size_t>(experts[i])] * scale};
  }
}

std::vector<int32_t> choose_pool(const MoeConfig& moe, ConstMatrix<float> logits,
                                 std::span<const float> bias) {
  std::vector<float> scores;
  std::vector<float> largest(static_cast<size_t>(logits.cols), -std::numeric_limits<float>::infinity());
  for (int64_t row = 0; row < logits.rows; ++row) {
    score(moe, logits.row_span(row), scores);
    for (size_t i = 0; i < scores.size(); ++i)
      largest[i] = std::max(largest[i], scores[i] + (bias.empty() ? 0.0F : bias[i]));
  }
  std::vector<int32_t> pool;
  fill_with_indices(pool, largest.size());
  const auto size = static_cast<size_t>(moe.experts_per_window);
  sort_best(pool, size, largest);
  pool.resize(size);
  std::sort(pool.begin(), pool.end());
  return pool;
}

}  // namespace lacuna
