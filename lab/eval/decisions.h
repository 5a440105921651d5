// Stories and questions with known answers, and the quality of a model's probabilities for the answers.
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
  std::vector<size_t> answers;              ///< [questions] index of the correct option
};

/// Sample number `index` of this seed, with one to `most_questions` questions. The story tells of a changing
/// number of somebody's things, of an animal, an event and its feeling, or of both. The hash of the story
/// decides its split.
DecisionSample draw_decisions(Split split, uint64_t seed, uint64_t index, int most_questions = 4);

/// A model's answer to one question.
struct JudgedDecision {
  DecisionQuestion question;
  size_t answer = 0;                          ///< index of the correct option
  std::vector<std::vector<double>> logprobs;  ///< see DecideResult
  bool both_orders = false;
  double label_mass = 0;

  std::vector<double> probabilities(double temperature) const;
};

/// Means over questions. All except the accuracy measure the probabilities, not the choice alone.
struct DecisionQuality {
  size_t count = 0;
  double accuracy = 0;  ///< share of questions with a correct most probable option
  double brier = 0;     ///< sum over options of (p - [option is correct])^2
  /// Expected calibration error: the mean of |accuracy - confidence| over 15 bins of the largest probability,
  /// weighted by bin size. Bins have equal width or, for fewer than 500 questions, equal size.
  double ece = 0;
  double nll = 0;         ///< -ln of the correct option's probability, clamped to at least 1e-12
  double label_mass = 0;  ///< DecisionAnswer::label_mass
};

DecisionQuality measure_decisions(std::span<const JudgedDecision> decisions,
                                  const DecisionTemperatures& temperatures);

/// The temperatures that give each kind's questions the least NLL; 1 for a kind without questions.
DecisionTemperatures fit_temperatures(std::span<const JudgedDecision> decisions);

nlohmann::ordered_json to_json(const DecisionQuality& quality);

}  // namespace lacuna
