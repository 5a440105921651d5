// Multiple choice by likelihood: chooses the most likely option after the question (eval/choices.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "eval/bound.h"
#include "eval/choices.h"
#include "eval/evaluate.h"

namespace lacuna {

struct ChoiceLikelihood {
  std::vector<double> nats;  ///< -log p of each option: exact or an upper bound (eval/bound.h)
  size_t chosen = 0;         ///< option with the least nats; the first of equals
  size_t chosen_per_character =
      0;  ///< option with the least nats per code point of its text (the harness's acc_norm)
};

struct ChoiceLikelihoods {
  std::vector<ChoiceLikelihood> items;
  int64_t forward_passes = 0;
  int64_t rows = 0;
  double seconds = 0;
};

/// The tokens of `scored` after `prompt`. Without a chat template, the two are tokenized together with a
/// space between them, and split at the length of the tokenized prompt, like in the harness. With a chat
/// template, `scored` begins the model's turn.
BoundText option_text(const EvaluatedModel& model, const std::string& prompt, const std::string& scored);

/// Item i is scored with settings.seed + i, so that its result does not depend on the other items. Throws
/// InputError like bound().
ChoiceLikelihoods choice_likelihoods(const EvaluatedModel& model, const ChoiceBenchmark& benchmark,
                                     const Shots& shots, std::span<const ChoiceItem> items,
                                     const BoundSettings& settings,
                                     const std::function<void(int32_t items_done)>& progress = {});

}  // namespace lacuna
