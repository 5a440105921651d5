#include "tasks/number_question.h"

#include <fmt/format.h>

namespace lacuna {

std::string worked_answer(const std::vector<Step>& steps) {
  std::string answer;
  for (const Step& step : steps)
    answer += fmt::format("{}{}{}={}. ", step.left, step.adds ? '+' : '-', step.right, step.result());
  return answer + fmt::format("The answer is {}.", steps.back().result());
}

}  // namespace lacuna
