// The curve of a training, for people.
#pragma once

#include <filesystem>

namespace lacuna::train {

/// Draws the losses of a log.csv over its steps, and the accuracies where it has any, into loss.svg and
/// accuracy.svg beside it. Without a line to draw it writes nothing. Throws InputError where it cannot write.
void draw_curves(const std::filesystem::path& log);

}  // namespace lacuna::train
