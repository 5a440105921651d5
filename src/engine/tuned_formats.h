// Formats of weights and K/V as paths of `lacuna tune`. A format is chosen when a model is loaded, so each
// level loads the weights again.
#pragma once

#include <span>
#include <vector>

#include "engine/weight_options.h"
#include "options/tuning_paths.h"

namespace lacuna {

/// The paths "weights" and "kv". Each level of "weights" takes fewer bytes than the one before; the first
/// takes fewer than with `given`. Formats in `given` other than "auto" are not tuned, nor are weights if the
/// model or its guide is a packed copy.
///   given  names that weight_formats() takes     guide  null: none
std::vector<TuningPath> format_paths(const FormatNames& given, const ModelSource& source,
                                     const ModelSource* guide);

/// Replaces "auto" in `given` by the settings in `loading`.
///   loading  each "weights" or "kv-cache"
FormatNames with_formats(FormatNames given, std::span<const TuningSetting> loading);

}  // namespace lacuna
