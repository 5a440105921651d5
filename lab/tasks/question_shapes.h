// Whole questions as templates, for the task `questions`: each row is a text with its equations.
//
// A text is in the language of question_text.h, in lower case at its start, with these additional slots:
//   {a} {b} {c} {d} numbers, {ao} the number with its noun ("7 shells"), {oa} the noun, singular or plural by
//   number a, {o1} its singular; {aq} {qa} {qs} {q1} likewise for a second noun; [a:are|is] plural and
//   singular by number a; {B} {C} names of two more people, {z} an irrelevant number, {color};
//   ~find/get/buy~ one of several wordings; ~+find/get-lose/sell~ wordings that add or subtract;
//   {LEFT} {HAS} {REST} {ALL} {THERE} {MONEY} one of the usual questions, without their mark.
//   {N} is the actor's name at its first mention, and "the farmer" for "a farmer" after that.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/number_question.h"
#include "tasks/question_forms.h"
#include "tasks/vocabulary.h"

namespace lacuna {

/// A text and its equations. "a-b", "a+b-c": one equation for each sign, from left to right. "a+b;c-R": a
/// second sum with the result R of the first. An equation after "&" is not part of the answer, but its result
/// must be valid. "?" is the sign of the text's next choice of wordings that add or subtract. Trailing marks:
///   "!"  the result is at least 1
///   "*"  all numbers are at least 2
///   "^"  the actor is one person with a name
struct QuestionShape {
  std::string_view text;
  std::string_view steps;
  int max_number = kMaxAsked;  ///< largest number; if less than kMaxAsked, also the largest result
};

/// Rows with the same nouns; numbers lie in [1, kMaxAsked].
struct ShapeTheme {
  QuestionForm form = QuestionForm::kStory;
  Wordings nouns, places;  ///< either may be empty
  std::span<const QuestionShape> shapes;
};

/// All rows, from the question_*_shapes.h files.
std::span<const ShapeTheme> shape_themes();

/// A question from a row of the form; all rows are equally likely.
NumberQuestion draw_shape_question(Draws& draws, QuestionForm form);

/// A question of this row of the theme.
NumberQuestion write_shape(Draws& draws, const ShapeTheme& theme, const QuestionShape& shape);

/// Words of all rows, for learning a vocabulary.
std::vector<std::string> shape_words();

}  // namespace lacuna
