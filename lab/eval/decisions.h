// Stories with questions whose answers are known, and how good the probabilities are that a model gives to
// them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "engine/decision.h"
#include "tasks/tasks.h"

namespace lacuna {

inline constexpr std::string_view kDecisionsTask = "decisions";

struct DecisionSample {
  std::string story;
  std::vector<DecisionQuestion> questions;  ///< of any kind
  std::vector<size_t> answers;              ///< [questions] the right option
};

/// The sample number `index` of this seed: somebody who has things, whose number changes, or an animal that
/// lives somewhere and feels something because of what happened to it, or both. The hash of the story decides
/// its split. It has one to `most_questions` questions.
DecisionSample draw_decisions(Split split, uint64_t seed, uint64_t index, int most_questions = 4);

/// A model's answer to one question.
struct JudgedDecision {
  DecisionQuestion question;
  size_t answer = 0;                          ///< the right option
  std::vector<std::vector<double>> logprobs;  ///< as DecideResult has them
  bool both_orders = false;
  double label_mass = 0;

  std::vector<double> probabilities(double temperature) const;
};

/// Means over questions. All but the accuracy judge the probabilities, not the choice alone.
struct DecisionQuality {
  size_t count = 0;
  double accuracy = 0;  ///< share of questions whose most probable option is right
  double brier = 0;     ///< sum over options of (p - [option is right])^2
  /// Expected calibration error: the mean of |accuracy - confidence| over 15 bins of the largest probability,
  /// weighted by size: of equal width, or below 500 questions of equal size.
  double ece = 0;
  double nll = 0;         ///< -ln of the right option's probability, of at least 1e-12
  double label_mass = 0;  ///< DecisionAnswer::label_mass
};

DecisionQuality measure_decisions(std::span<const JudgedDecision> decisions,
                                  const DecisionTemperatures& temperatures);

/// The temperatures that give each kind's questions the least NLL; 1 for a kind without questions.
DecisionTemperatures fit_temperatures(std::span<const JudgedDecision> decisions);

nlohmann::ordered_json to_json(const DecisionQuality& quality);

}  // namespace lacuna
