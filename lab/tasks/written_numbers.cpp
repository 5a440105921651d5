#include "tasks/written_numbers.h"

#include <algorithm>

namespace lacuna {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool may_be_in_number(char c) {
  return is_digit(c) || c == '.' || c == ',';
}

}  // namespace

std::string normalized_number(std::string_view text) {
  std::string number;
  for (const char c : text) {
    if (c != ',' && c != '$') number += c;
  }
  if (number.ends_with('.')) number.pop_back();
  return number;
}

std::optional<std::string> strict_number(std::string_view answer) {
  constexpr std::string_view kSign = "#### ";
  for (size_t at = answer.find(kSign); at != std::string_view::npos; at = answer.find(kSign, at + 1)) {
    const size_t begin = at + kSign.size();
    size_t end = begin < answer.size() && answer[begin] == '-' ? begin + 1 : begin;
    while (end < answer.size() && may_be_in_number(answer[end])) ++end;
    const std::string_view number = answer.substr(begin, end - begin);
    if (std::any_of(number.begin(), number.end(), is_digit)) return normalized_number(number);
  }
  return {};
}

std::optional<std::string> last_number(std::string_view answer) {
  size_t end = answer.size();
  while (end > 0 && !is_digit(answer[end - 1])) --end;
  if (end == 0) return {};
  size_t begin = end;
  while (begin > 0 && (may_be_in_number(answer[begin - 1]) || answer[begin - 1] == '$')) --begin;
  if (begin > 0 && answer[begin - 1] == '-') --begin;
  return normalized_number(answer.substr(begin, end - begin));
}

}  // namespace lacuna
