// Names: lists of them, separated by spaces, and their case.
#pragma once

#include <string>
#include <string_view>

namespace lacuna {

/// Whether a list of names contains `name`.
constexpr bool has_name(std::string_view names, std::string_view name) {
  if (name.empty() || name.find(' ') != name.npos) return false;
  for (size_t at = names.find(name); at != names.npos; at = names.find(name, at + 1)) {
    const bool begins = at == 0 || names[at - 1] == ' ';
    const size_t end = at + name.size();
    if (begins && (end == names.size() || names[end] == ' ')) return true;
  }
  return false;
}

/// ASCII letters in lower case; other bytes stay.
inline std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

}  // namespace lacuna
