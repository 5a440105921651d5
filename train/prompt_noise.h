// Replaces words of questions in training, so that models learn to read sentences with unknown words.
#pragma once

#include <string>
#include <string_view>

#include "tasks/vocabulary.h"

namespace lacuna::train {

/// `text` with about `share` in [0, 1] of its words changed: half of them become random words, the others are
/// dropped or repeated. Numbers, in digits or words, words that compare them ("more", "half", "each") and
/// punctuation stay.
std::string with_noise(std::string_view text, double share, Draws& draws);

}  // namespace lacuna::train
