// Which experts a row goes to.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/matrix.h"
#include "model/config.h"

namespace lacuna {

struct ExpertChoice {
  int32_t expert;
  float weight;  ///< weight of the expert's output in the row's sum
};

/// Chooses one row's experts, best first; of equals the lowest expert or group wins.
///   logits  [num_experts] of the router
///   bias    [num_experts], or empty without MoeConfig::selection_bias
///   pool    those that the row's window shares, ascending; empty: all
///   chosen  [experts_per_token]
/// Softmax and sigmoid in f32. With groups as in LLaDA2 (models/llada2_moe of inclusionAI/dFactory): a
/// group's rank is the sum of its two largest biased scores, and weights come from the scores without the
/// bias.
void choose_experts(const MoeConfig& moe, std::span<const float> logits, std::span<const float> bias,
                    std::span<const int32_t> pool, std::span<ExpertChoice> chosen);

/// The experts that the rows of a window share: those whose largest biased score of any row is largest, of
/// equals the lowest (LLaDA 2.2, technical report, section 2.2). Returns MoeConfig::experts_per_window,
/// ascending.
///   logits  [rows, num_experts]
std::vector<int32_t> choose_pool(const MoeConfig& moe, ConstMatrix<float> logits,
                                 std::span<const float> bias);

}  // namespace lacuna
