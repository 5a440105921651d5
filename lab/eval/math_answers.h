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

/// JSON lines with `problem` and `solution`, which has a \boxed{} answer, or `answer` (MATH-500). Throws
/// InputError.
std::vector<MathProblem> read_math(const std::string& path);

/// The request to a chat model, and the text for a base model to continue.
std::string math_request(const MathProblem& problem);
std::string math_prompt(const MathProblem& problem);

/// The content of the last \boxed{...} or \fbox{...}, else what follows the last "final answer is" on its
/// line, without "$" and a period at the end; empty where there is neither.
std::optional<std::string> final_math_answer(std::string_view text);

/// One spelling of what is the same: no spaces, "$", \left, \right, degrees, percent signs, units in \text{}
/// behind a number, or thousands' commas; \dfrac, \tfrac and a/b are \frac{a}{b}; \frac12 is \frac{1}{2};
/// \sqrt2 is \sqrt{2}; .5 is 0.5; "x=" before the answer is left out. Two answers are compared in this form,
/// as text.
std::string normalized_math(std::string_view answer);

}  // namespace lacuna
