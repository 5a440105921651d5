// Whole questions as templates, for the task `questions`: each row is a text with its equations.
//
// A text is in the language of question_text.h, in lower case at its start, with these slots and marks more:
//   {a} {b} {c} {d} numbers, {ao} the number with its noun ("7 shells"), {oa} the noun as number a asks for
//   it, {o1} its singular; {aq} {qa} {qs} {q1} the same of a second noun; [a:are|is] words for several and
//   for one by number a; {B} {C} two more people by name, {z} a number that does not count, {color};
//   ~find/get/buy~ one of several wordings; ~+find/get-lose/sell~ wordings that add or subtract;
//   {LEFT} {HAS} {REST} {ALL} {THERE} {MONEY} one of the usual questions, without their mark.
//   {N} is the actor's name where it first stands, and "the farmer" of "a farmer" behind that.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/number_question.h"
#include "tasks/question_forms.h"
#include "tasks/vocabulary.h"

namespace lacuna {

/// "a-b", "a+b-c": one equation for each sign, from left to right. "a+b;c-R": a second sum with the result R
/// of the first. An equation behind "&" is none of the answer: its result must only be possible. "?" is the
/// sign of the text's next choice of wordings that add or subtract. Marks behind it:
///   "!"  the result is at least 1
///   "*"  all numbers are at least 2
///   "^"  the actor is one person with a name
struct QuestionShape {
  std::string_view text;
  std::string_view steps;
  int max_number = kMaxAsked;  ///< of the numbers and, where it is less than kMaxAsked, of all results
};

/// Rows with the same nouns; numbers lie in [1, kMaxAsked].
struct ShapeTheme {
  QuestionForm form = QuestionForm::kStory;
  Wordings nouns, places;  ///< either may be empty
  std::span<const QuestionShape> shapes;
};

/// All rows, from the question_*_shapes.h files.
std::span<const ShapeTheme> shape_themes();

/// A question of any row of the form, each as often as the others.
NumberQuestion draw_shape_question(Draws& draws, QuestionForm form);

/// A question of this row of the theme.
NumberQuestion write_shape(Draws& draws, const ShapeTheme& theme, const QuestionShape& shape);

/// Their words, for learning a vocabulary.
std::vector<std::string> shape_words();

}  // namespace lacuna
