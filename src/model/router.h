// Which experts a row goes to.
#pragma once

#include <cstdint>
#include <span>

#include "model/config.h"

namespace lacuna {

struct ExpertChoice {
  int32_t expert;
  float weight;  ///< of its output in the row's sum
};

/// Chooses one row's experts, best first; of equals the lowest expert or group wins.
///   logits  [num_experts] of the router
///   bias    [num_experts], or empty without MoeConfig::selection_bias
///   chosen  [experts_per_token]
/// Softmax and sigmoid in f32. With groups as in LLaDA2 (models/llada2_moe of inclusionAI/dFactory): a
/// group's rank is the sum of its two largest biased scores, and weights come from the scores without the
/// bias.
void choose_experts(const MoeConfig& moe, std::span<const float> logits, std::span<const float> bias,
                    std::span<ExpertChoice> chosen);

}  // namespace lacuna
