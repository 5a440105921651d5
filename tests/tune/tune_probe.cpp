// Prints what tune/bounds.h computes, for tests/reference/check_tune.py: one line "p safety bound needed" for
// each line "binary|bounded PROMPTS LOSSES RISK LEVEL" of standard input.
#include <fmt/core.h>

#include <iostream>
#include <string>

#include "tune/bounds.h"

int main() {
  std::string kind;
  lacuna::LossSum sum;
  double risk = 0;
  double level = 0;
  while (std::cin >> kind >> sum.prompts >> sum.losses >> risk >> level) {
    const lacuna::LossKind parsed = kind == "binary" ? lacuna::LossKind::kBinary : lacuna::LossKind::kBounded;
    fmt::print("{:.17g} {:.17g} {:.17g} {}\n", lacuna::p_value(parsed, sum, risk),
               lacuna::p_value_of_safety(parsed, sum, risk), lacuna::upper_bound(parsed, sum, level),
               lacuna::prompts_needed(risk, level));
  }
  return 0;
}
