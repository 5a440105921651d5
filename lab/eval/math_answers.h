// MATH (Hendrycks et al. 2021, arXiv 2103.03874): competition problems whose answers are short pieces of
// LaTeX.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

struct MathProblem {
  std::string problem;
  std::string answer;  ///< the content of the solution's last \boxed{}, as written
};

/// Reads JSON lines with `problem` and either `solution` with a \boxed{} answer, or `answer` (MATH-500).
/// Throws InputError.
std::vector<MathProblem> read_math(const std::string& path);

/// The request to a chat model, and the text for a base model to continue.
std::string math_request(const MathProblem& problem);
std::string math_prompt(const MathProblem& problem);

/// The content of the last \boxed{...} or \fbox{...}, else the rest of the line after the last "final answer
/// is", without "$" and a final period; empty if there is neither.
std::optional<std::string> final_math_answer(std::string_view text);

/// Canonical spelling, in which answers are compared as text. Removes spaces, "$", \left, \right, degrees,
/// percent signs, units in \text{} after a number, thousands separators and "x=" before the answer; \dfrac,
/// \tfrac and a/b become \frac{a}{b}, \frac12 becomes \frac{1}{2}, \sqrt2 becomes \sqrt{2}, .5 becomes 0.5.
std::string normalized_math(std::string_view answer);

}  // namespace lacuna
