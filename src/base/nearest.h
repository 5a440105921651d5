#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lacuna {

/// Optimal string alignment distance: insertions, deletions, replacements and swaps of neighboring characters
/// that turn one text into the other. Case-insensitive.
int edit_distance(std::string_view a, std::string_view b);

/// Returns the known name that `typed` is most likely a misspelling of; empty if none is within a third of
/// its length. Long names and long lists are not searched.
std::string nearest_name(std::string_view typed, std::span<const std::string> known);

}  // namespace lacuna
