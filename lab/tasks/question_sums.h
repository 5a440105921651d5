// Sums without a story, for the task `questions`.
#pragma once

#include "tasks/number_question.h"

namespace lacuna {

/// "What is 12 plus 7?", "Take 9 from 40.", "12+7-5=".
NumberQuestion draw_sum_question(Draws& draws);

/// A sum that continues from a result: "And minus 3?".
NumberQuestion draw_next_sum(Draws& draws, int number);

/// The words of its wordings.
std::vector<std::string_view> sum_wordings();

}  // namespace lacuna
