// Formats of weights and K/V as paths of `lacuna tune`. They are chosen when a model is loaded, so each level
// means another copy of the weights.
#pragma once

#include <span>
#include <vector>

#include "engine/weight_options.h"
#include "options/tuning_paths.h"

namespace lacuna {

/// The paths "weights" and "kv": formats that take fewer bytes than the model does as `given` loads it, each
/// fewer than the level before it. A format that was given is not tuned, and neither are weights that a
/// packed copy holds, the model's or its guide's.
///   given  names that weight_formats() takes     guide  null: none
std::vector<TuningPath> format_paths(const FormatNames& given, const ModelSource& source,
                                     const ModelSource* guide);

/// `given`, with what the settings of such paths say wherever it says "auto".
///   loading  each "weights" or "kv-cache"
FormatNames with_formats(FormatNames given, std::span<const TuningSetting> loading);

}  // namespace lacuna
