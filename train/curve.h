// Plots of a training run.
#pragma once

#include <filesystem>

namespace lacuna::train {

/// Plots the losses of a log.csv over its steps, and the accuracies if it has any, into loss.svg and
/// accuracy.svg next to it. Writes nothing for an empty log. Throws InputError if it cannot write.
void plot_curves(const std::filesystem::path& log);

}  // namespace lacuna::train
