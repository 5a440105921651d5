// From questions to what a model reads: a prompt that holds the questions and the text, and an answer of
// which all is given but the labels.
//
//   system turn  Answer each question about the text with one label, one line each, such as "1: A".
//                Question 1: Is Mia happy?
//                  yes
//                  no
//                Question 2: Where is she?
//                  A: at home (in any room)
//                  B: somewhere else
//   user turn    the text
//   answer       1: [label]
//                2: [label]
//
// Masked and uniform models read an answer whole, block models where all labels lie in one block. Otherwise,
// and from left to right, each question has a branch with its own line alone, after a prompt that is read
// once. What the sources do, and what was chosen where they differ, is in docs/guide/decide.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "decode/decision.h"
#include "engine/answer_labels.h"
#include "engine/decision.h"
#include "model/config.h"
#include "tokenizer/chat_template.h"

namespace lacuna {

/// Which model is asked.
struct DecisionModel {
  const ModelConfig& config;
  const Tokenizer& tokenizer;
  const ChatTemplate& chat_template;
  const AnswerLabels& labels;
};

/// Questions that share a prompt, as it lists them.
struct DecisionSheet {
  std::span<const DecisionQuestion> questions;  ///< numbered from 1
  bool reversed = false;  ///< options of choices in reverse order, which get their labels in this order
};

/// The lines of a sheet's question, as its prompt lists them, with a line break behind each.
std::string question_text(const DecisionModel& model, const DecisionSheet& sheet, size_t index);

/// The prompt of a sheet. User's words are text whatever they say: never special tokens, and without line
/// breaks in questions, so that none can pass for another question or option.
std::vector<TokenId> decision_prompt(const DecisionModel& model, const std::string& guidance,
                                     const std::string& state, const DecisionSheet& sheet);

/// The answer's lines of questions `first` to `first + count` of a sheet, with the first label at each slot.
/// Positions of slots count from the first line's first token. Throws InputError, which names a label that is
/// not one token there, and a question with more options than there are labels.
DecisionBranch decision_lines(const DecisionModel& model, const DecisionSheet& sheet, size_t first,
                              size_t count);

/// Which option each label of a question's slot stands for.
std::vector<size_t> options_of_labels(const DecisionQuestion& question, bool reversed);

/// The question of a slot, and whether its labels stand for the options in reverse order.
struct SlotSource {
  size_t question = 0;  ///< index among the questions of the request
  bool reversed = false;
};

struct DecisionLayout {
  std::vector<DecisionCanvas> canvases;
  std::vector<SlotSource> sources;  ///< of all slots, in the order of DecisionDecoder::readings()
  int64_t prompt_tokens = 0;        ///< tokens of all prompts; samples of noise share one prompt
};

/// Lays out all questions of a request in as few canvases as fit the context. Throws InputError for a request
/// that no model could answer, and for a text and a question that do not fit; `state` is never shortened.
DecisionLayout lay_out_decision(const DecisionModel& model, const DecideRequest& request);

}  // namespace lacuna
