#include "base/nearest.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

namespace lacuna {
namespace {

constexpr size_t kLongestTyped = 200;
constexpr size_t kMaxNames = 10'000;

int lower(char character) {
  return std::tolower(static_cast<unsigned char>(character));
}

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  // Rows of the table for a[0, i - 2], a[0, i - 1] and a[0, i]; entry j is the distance to b[0, j].
  std::array<std::vector<int>, 3> rows;
  for (std::vector<int>& row : rows) row.resize(b.size() + 1);
  auto& [before, last, row] = rows;
  for (size_t j = 0; j <= b.size(); ++j) last[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1])) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::rotate(rows.begin(), rows.begin() + 1, rows.end());
  }
  return last[b.size()];
}

std::string nearest_name(std::string_view typed, std::span<const std::string> known) {
  if (typed.size() > kLongestTyped) return {};
  std::string nearest;
  int least = std::max(1, static_cast<int>(typed.size()) / 3) + 1;
  for (const std::string& name : known.first(std::min(known.size(), kMaxNames))) {
    if (name.size() > kLongestTyped) continue;
    const int distance = edit_distance(typed, name);
    // A distance equal to the name's length means that no character matches.
    if (distance < least && distance < static_cast<int>(name.size())) {
      least = distance;
      nearest = name;
    }
  }
  return nearest;
}

}  // namespace lacuna
