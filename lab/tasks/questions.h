// The task `questions`: questions about numbers as school books ask them, in as many wordings as possible.
// Samples are balanced as follows (kQuestionShares has the figures):
//  - stories about one number, of one to four changes (people, places, money, water, temperature, age, ...),
//    the parts of a whole, and what is missing;
//  - two or three people: sums, differences, "5 more than";
//  - sums without a story: "What is 12 plus 7?", "Subtract 9 from 40.", up to three operands;
//  - conversations of two to four turns about all of that, with small talk and requests for stories.
// Half of the stories and comparisons are put together sentence by sentence, the others are whole texts of
// question_shapes.h, as are a third of the sums. Half of all first pairs of numbers are uniform in [0, 99],
// the others are small. One question in four has number words.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/number_question.h"
#include "tasks/sample.h"
#include "tasks/vocabulary.h"

namespace lacuna {

/// Shares of the forms, in percent, of questions without a conversation around them.
struct QuestionShare {
  QuestionForm form;
  int percent;
};
inline constexpr QuestionShare kQuestionShares[] = {
    {QuestionForm::kStory, 54}, {QuestionForm::kComparison, 22}, {QuestionForm::kSum, 24}};
inline constexpr int kConversationPercent = 22;  ///< of all samples

/// Whether the question belongs to the split, by its frame and by its text.
bool is_of_split(const NumberQuestion& question, Split split);

/// A question of the split, of any form.
NumberQuestion draw_single_question(Draws& draws, Split split);

/// A sample of the task: with or without a system turn, alone or in a conversation.
Sample draw_question_sample(Draws draws, Split split);

/// Right: the answer in every character; a requested story as in `chat`.
bool check_question(const Sample& sample, std::string_view text);

/// All wordings of a kind of sentence, each once.
std::vector<std::string> question_wordings(SentenceKind kind);

/// Every word that `questions` may use, with a space in front where a text has one: for learning a
/// vocabulary.
std::vector<std::string> question_words();

}  // namespace lacuna
