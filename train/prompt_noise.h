// Words of questions that training replaces, so that models read sentences of which they do not know each
// word.
#pragma once

#include <string>
#include <string_view>

#include "tasks/vocabulary.h"

namespace lacuna::train {

/// `text` with about `share` of its words changed: half of them are made up, the others are left out or said
/// twice. Numbers, in digits or in words, and the words that compare them ("more", "half", "each") stay, as
/// do the marks behind a word. `share` in [0, 1].
std::string with_noise(std::string_view text, double share, Draws& draws);

}  // namespace lacuna::train
