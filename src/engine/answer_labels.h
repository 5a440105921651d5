// Labels that stand for the options of a question. After a question's number every label is exactly one
// token, so that its probability comes from one logit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/decision.h"
#include "tokenizer/tokenizer.h"

namespace lacuna {

/// The labels for one tokenizer, and the separator between a question's number and its label.
struct AnswerLabels {
  std::string separator = ": ";      ///< ": " or ":"
  std::vector<std::string> yes_no;   ///< {"yes", "no"}, or other words if these are not single tokens
  std::vector<std::string> options;  ///< letters, then codes of two letters; at most kMaxOptions
  std::vector<std::string> levels;   ///< digits from 0 on; at most kMaxLevels

  const std::vector<std::string>& of(QuestionKind kind) const;
};

AnswerLabels find_answer_labels(const Tokenizer& tokenizer);

}  // namespace lacuna
