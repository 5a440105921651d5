// Applies a step's edits of a canvas to a list with one element per position.
#pragma once

#include <vector>

#include "decode/decoder.h"

namespace lacuna {

/// Carries out the edits; what is inserted becomes `fresh`. Edits after the list's end change nothing.
///   first  position of the list's first element; edits before it change nothing either
template <typename T>
void apply_edits(const CanvasEdits& edits, const T& fresh, std::vector<T>& list, int32_t first = 0) {
  for (auto position = edits.dropped.rbegin(); position != edits.dropped.rend(); ++position) {
    const int32_t index = *position - first;
    if (index >= 0 && index < std::ssize(list)) list.erase(list.begin() + index);
  }
  for (const InsertedMasks& each : edits.inserted) {
    const int32_t index = each.position - first;
    if (index >= 0 && index <= std::ssize(list)) {
      list.insert(list.begin() + index, static_cast<size_t>(each.count), fresh);
    }
  }
}

}  // namespace lacuna
