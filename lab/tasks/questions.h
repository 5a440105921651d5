// The task `questions`: questions about numbers in the style of school books, in a great variety of wordings.
// Samples are balanced as follows (kQuestionShares has the figures):
//  - stories about one number, of one to four changes (people, places, money, water, temperature, age, ...),
//    the parts of a whole, and what is missing;
//  - two or three people: sums, differences, "5 more than";
//  - sums without a story: "What is 12 plus 7?", "Subtract 9 from 40.", up to three operands;
//  - conversations of two to four turns about all of that, with small talk and requests for stories.
// Half of the stories and comparisons are composed sentence by sentence; the others, and a third of the sums,
// are whole texts of question_shapes.h. Half of all first pairs of numbers are uniform in [0, 99], the others
// are small. One question in four has number words.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/number_question.h"
#include "tasks/sample.h"
#include "tasks/vocabulary.h"

namespace lacuna {

/// Share of a form among questions without a conversation, in percent.
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

/// Whether `text` equals the answer in every character or, for a requested story, is correct as in `chat`.
bool check_question(const Sample& sample, std::string_view text);

/// All wordings of a kind of sentence, each once.
std::vector<std::string> question_wordings(SentenceKind kind);

/// Every word that `questions` may use, with the leading space that texts have, for learning a vocabulary.
std::vector<std::string> question_words();

}  // namespace lacuna
