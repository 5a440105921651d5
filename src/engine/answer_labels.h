// Labels that stand for the options of a question. A label is exactly one token after the question's number,
// whatever label stands there, so that its probability is one logit's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/decision.h"
#include "tokenizer/tokenizer.h"

namespace lacuna {

/// The labels of one tokenizer, and what stands between a question's number and its label.
struct AnswerLabels {
  std::string separator = ": ";      ///< ": " or ":"
  std::vector<std::string> yes_no;   ///< two: yes and no, where these are single tokens, else shorter words
  std::vector<std::string> options;  ///< letters, then codes of two letters; at most kMaxOptions
  std::vector<std::string> levels;   ///< digits from 0 on; at most kMaxLevels

  const std::vector<std::string>& of(QuestionKind kind) const;
};

AnswerLabels find_answer_labels(const Tokenizer& tokenizer);

}  // namespace lacuna
