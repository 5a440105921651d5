// Routing of rows to experts.
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

/// Chooses one row's experts, best first; ties go to the lowest expert or group.
///   logits  [num_experts] outputs of the router
///   bias    [num_experts], or empty without MoeConfig::selection_bias
///   pool    experts to choose from, ascending (the row's window's pool); empty: all
///   chosen  [experts_per_token]
/// Softmax and sigmoid are f32. Groups follow LLaDA2 (models/llada2_moe of inclusionAI/dFactory): a group's
/// rank is the sum of its two largest biased scores, and weights come from scores without the bias.
void choose_experts(const MoeConfig& moe, std::span<const float> logits, std::span<const float> bias,
                    std::span<const int32_t> pool, std::span<ExpertChoice> chosen);

/// The pool of experts that a window's rows share: those with the largest biased score in any row; ties go to
/// the lowest expert (LLaDA 2.2, technical report, section 2.2). Returns MoeConfig::experts_per_window
/// experts, ascending.
///   logits  [rows, num_experts]
std::vector<int32_t> choose_pool(const MoeConfig& moe, ConstMatrix<float> logits,
                                 std::span<const float> bias);

}  // namespace lacuna
