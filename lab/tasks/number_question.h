// A question about numbers with its answer, for the task `questions`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tasks/sample.h"
#include "tasks/vocabulary.h"

namespace lacuna {

/// Ranges of `questions`: numbers in the text lie in [0, kMaxAsked], except results that a conversation
/// continues from; all results lie in [0, kMaxAnswer].
inline constexpr int kMaxAsked = 99;
inline constexpr int kMaxAnswer = 198;

struct Step {
  int left = 0;
  bool adds = true;
  int right = 0;
  int result() const { return adds ? left + right : left - right; }
};

/// "12+7=19. 19-5=14. The answer is 14."; at least one step.
std::string worked_answer(const std::vector<Step>& steps);

enum class QuestionForm : uint8_t { kStory, kComparison, kSum };

struct NumberQuestion {
  QuestionForm form = QuestionForm::kStory;
  std::string text;
  std::vector<Step> steps;
  uint64_t frame = 0;   ///< hash of the wordings, whatever names and numbers fill them
  bool common = false;  ///< a common wording, always in the train split
};

enum class SentenceKind : uint8_t { kOpening, kGain, kLoss, kQuestion };

}  // namespace lacuna
