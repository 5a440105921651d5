// Lays out questions for a model: the prompt holds the questions and the text; the answer is given except for
// its labels.
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
// Masked and uniform models get the whole answer in one pass, and so do block models if all labels lie in one
// block. Otherwise, and in causal models, each question has a branch with its line only, after a prompt that
// is computed once. docs/guide/decide.md explains the choices.
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

/// The model to ask.
struct DecisionModel {
  const ModelConfig& config;
  const Tokenizer& tokenizer;
  const ChatTemplate& chat_template;
  const AnswerLabels& labels;
};

/// Questions that share a prompt, as it lists them.
struct DecisionSheet {
  std::span<const DecisionQuestion> questions;  ///< numbered from 1
  bool reversed = false;  ///< options of choices are listed in reverse order and labeled in that order
};

/// The prompt's lines for question `index`, each with a line break at its end.
std::string question_text(const DecisionModel& model, const DecisionSheet& sheet, size_t index);

/// The prompt of a sheet. User text never becomes special tokens, and line breaks in questions are removed,
/// so that no text can pass for another question or option.
std::vector<TokenId> decision_prompt(const DecisionModel& model, const std::string& guidance,
                                     const std::string& state, const DecisionSheet& sheet);

/// The answer's lines of questions [first, first + count), with the first label in each slot. Slot positions
/// count from the first line's first token. Throws InputError if a label is not one token there, or a
/// question has more options than there are labels.
DecisionBranch decision_lines(const DecisionModel& model, const DecisionSheet& sheet, size_t first,
                              size_t count);

/// Maps label indices to option indices: [options].
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

/// Lays out all questions of a request in as few canvases as fit the context. Throws InputError for an
/// invalid request, and if the text and one question do not fit; `state` is never shortened.
DecisionLayout lay_out_decision(const DecisionModel& model, const DecideRequest& request);

}  // namespace lacuna
