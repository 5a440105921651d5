#include "eval/math_answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "eval/benchmarks.h"

namespace lacuna {
namespace {

constexpr size_t kNoPlace = std::string_view::npos;

bool is_figure(char c) {
  return c >= '0' && c <= '9';
}

bool is_letter(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0;
}

/// Position of the brace that closes the group opened by the brace text[open]; kNoPlace if none does.
size_t closing_brace(std::string_view text, size_t open) {
  int depth = 0;
  for (size_t i = open; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;  // \{ and \} do not delimit groups
    } else if (text[i] == '{') {
      ++depth;
    } else if (text[i] == '}' && --depth == 0) {
      return i;
    }
  }
  return kNoPlace;
}

std::optional<std::string> last_boxed(std::string_view text) {
  for (size_t at = text.rfind("box"); at != kNoPlace; at = at == 0 ? kNoPlace : text.rfind("box", at - 1)) {
    for (const auto& [name, back] : {std::pair<std::string_view, size_t>{"\\boxed{", 1}, {"\\fbox{", 2}}) {
      if (at < back || text.substr(at - back, name.size()) != name) continue;
      const size_t open = at - back + name.size() - 1;
      const size_t close = closing_brace(text, open);
      if (close != kNoPlace) return std::string(text.substr(open + 1, close - open - 1));
    }
  }
  return {};
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != kNoPlace; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

/// Replaces `\text{...}` and similar commands by their content, or by nothing after a number or a brace,
/// where the content is a unit.
void remove_texts(std::string& text) {
  for (const std::string_view name : {"\\text{", "\\mbox{", "\\textbf{", "\\mathrm{"}) {
    for (size_t at = text.find(name); at != kNoPlace; at = text.find(name)) {
      const size_t open = at + name.size() - 1;
      const size_t close = closing_brace(text, open);
      if (close == kNoPlace) break;
      const bool is_unit = at > 0 && (is_figure(text[at - 1]) || text[at - 1] == '}');
      const size_t end = is_unit && close + 2 < text.size() && text[close + 1] == '^' ? close + 3 : close + 1;
      text.replace(at, end - at, is_unit ? std::string() : text.substr(open + 1, close - open - 1));
    }
  }
}

/// Adds braces to `count` one-character arguments: \frac12 becomes \frac{1}{2}, \sqrt2 becomes \sqrt{2}.
void brace_arguments(std::string& text, std::string_view name, int count) {
  for (size_t at = text.find(name); at != kNoPlace; at = text.find(name, at + name.size())) {
    size_t next = at + name.size();
    for (int i = 0; i < count && next < text.size(); ++i) {
      if (text[next] == '{') {
        next = closing_brace(text, next);
        if (next == kNoPlace) return;
        ++next;
      } else if (is_figure(text[next]) || (is_letter(text[next]) && next > at + name.size())) {
        text.replace(next, 1, fmt::format("{{{}}}", text[next]));
        next += 3;
      } else {
        break;
      }
    }
  }
}

/// Replaces a text that is a/b with integers a and b by \frac{a}{b}.
void turn_ratio(std::string& text) {
  const size_t bar = text.find('/');
  if (bar == kNoPlace || bar == 0 || bar + 1 == text.size()) return;
  const bool negative = text.front() == '-';
  const std::string above = text.substr(negative ? 1 : 0, bar - (negative ? 1 : 0));
  const std::string below = text.substr(bar + 1);
  const auto whole = [](const std::string& part) {
    return !part.empty() && std::all_of(part.begin(), part.end(), is_figure);
  };
  if (whole(above) && whole(below))
    text = fmt::format("{}\\frac{{{}}}{{{}}}", negative ? "-" : "", above, below);
}

/// Removes thousands separators: 1,234 becomes 1234, but 1,2 and 12,34 are lists and stay.
void join_thousands(std::string& text) {
  for (size_t at = text.find(','); at != kNoPlace; at = text.find(',', at + 1)) {
    const size_t end = text.find_first_not_of("0123456789", at + 1);
    const size_t last = end == kNoPlace ? text.size() : end;
    size_t begin = at;
    while (begin > 0 && is_figure(text[begin - 1])) --begin;
    const bool follows_bracket =
        begin > 0 && (text[begin - 1] == '(' || text[begin - 1] == '[' || text[begin - 1] == ',');
    if (last - at != 4 || at == begin || at - begin > 3 + 4 * 4 || text[begin] == '0' || follows_bracket)
      continue;
    text.erase(at--, 1);
  }
}

}  // namespace

std::vector<MathProblem> read_math(const std::string& path) {
  std::vector<MathProblem> problems;
  read_json_lines(path, [&](const nlohmann::json& line, const JsonObject& json) {
    MathProblem problem{json.text("problem"), {}};
    if (line.contains("answer")) {
      problem.answer = json.text("answer");
    } else {
      const std::optional<std::string> boxed = last_boxed(json.text("solution"));
      if (!boxed) json.refuse("solution", "a solution with its answer in \\boxed{}");
      problem.answer = *boxed;
    }
    problems.push_back(std::move(problem));
  });
  return problems;
}

std::string math_request(const MathProblem& problem) {
  return problem.problem + "\n\nReason step by step, and put the final answer within \\boxed{}.";
}

std::string math_prompt(const MathProblem& problem) {
  return fmt::format("Problem:\n{}\n\nSolution:", problem.problem);
}

std::optional<std::string> final_math_answer(std::string_view text) {
  if (std::optional<std::string> boxed = last_boxed(text)) return boxed;
  constexpr std::string_view kPhrase = "final answer is";
  const size_t at = text.rfind(kPhrase);
  if (at == kNoPlace) return {};
  std::string_view rest = text.substr(at + kPhrase.size());
  rest = rest.substr(0, rest.find('\n'));
  if (const size_t hope = rest.find(". I hope"); hope != kNoPlace)
    rest = rest.substr(0, hope);  // Minerva's form
  while (!rest.empty() && (rest.front() == ' ' || rest.front() == ':' || rest.front() == '$'))
    rest.remove_prefix(1);
  while (!rest.empty() && (rest.back() == ' ' || rest.back() == '.' || rest.back() == '$'))
    rest.remove_suffix(1);
  if (rest.empty()) return {};
  return std::string(rest);
}

std::string normalized_math(std::string_view answer) {
  std::string text(answer);
  for (const std::string_view gone :
       {"\\!", "\\,", "\\;", "\\ ", "\\left", "\\right", "^\\circ", "^{\\circ}", "\\$", "\\%", "$", "%"}) {
    replace_all(text, gone, "");
  }
  remove_texts(text);
  std::erase_if(text, [](unsigned char c) { return std::isspace(c) != 0; });
  replace_all(text, "dfrac", "frac");
  replace_all(text, "tfrac", "frac");
  if (text.ends_with('.')) text.pop_back();
  if (text.size() > 2 && is_letter(text[0]) && text[1] == '=') text.erase(0, 2);
  brace_arguments(text, "\\frac", 2);
  brace_arguments(text, "\\sqrt", 1);
  for (size_t at = text.find('.'); at != kNoPlace; at = text.find('.', at + 2)) {
    if (at + 1 < text.size() && is_figure(text[at + 1]) && (at == 0 || !is_figure(text[at - 1])))
      text.insert(at, "0");
  }
  join_thousands(text);
  turn_ratio(text);
  return text;
}

}  // namespace lacuna
