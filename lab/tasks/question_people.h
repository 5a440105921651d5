// Questions about two or three people, for the task `questions`.
#pragma once

#include "tasks/number_question.h"

namespace lacuna {

/// "Mia has 12 shells. Ben has 5 more than Mia. How many do they have together?"
NumberQuestion draw_people_question(Draws& draws);

/// Wordings of its sentences, in the language of question_text.h.
std::vector<std::string_view> people_wordings(SentenceKind kind);

/// Words of these questions, for learning a vocabulary.
std::vector<std::string> people_words();

}  // namespace lacuna
