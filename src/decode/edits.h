// Applies a step's edits of a canvas to a list with one element per position.
#pragma once

#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include "decode/decoder.h"

namespace lacuna {

/// Applies the edits in time linear in list and edits; inserted elements are copies of `fresh`. Edits after
/// the list's end change nothing.
///   edits  both lists ascending
///   first  position of the list's first element; edits before it change nothing either
template <typename T>
void apply_edits(const CanvasEdits& edits, const T& fresh, std::vector<T>& list, int32_t first = 0) {
  if (!edits.dropped.empty()) {
    auto next = edits.dropped.begin();
    size_t kept = 0;
    for (size_t i = 0; i < list.size(); ++i) {
      const int64_t position = first + static_cast<int64_t>(i);
      while (next != edits.dropped.end() && *next < position) ++next;
      if (next != edits.dropped.end() && *next == position) continue;
      if (kept != i) list[kept] = std::move(list[i]);
      ++kept;
    }
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(kept), list.end());
  }
  if (edits.inserted.empty()) return;
  std::vector<T> result;
  auto rest = list.begin();
  for (const InsertedMasks& each : edits.inserted) {
    const int64_t before = int64_t{each.position} - first - std::ssize(result);  // elements that come first
    if (before < 0 || before > list.end() - rest) continue;
    result.insert(result.end(), std::make_move_iterator(rest), std::make_move_iterator(rest + before));
    rest += before;
    result.insert(result.end(), static_cast<size_t>(each.count), fresh);
  }
  result.insert(result.end(), std::make_move_iterator(rest), std::make_move_iterator(list.end()));
  list = std::move(result);
}

}  // namespace lacuna
