// Applies presets that `lacuna tune --save` wrote, after a check that they were made for this model.
#pragma once

#include <string>
#include <vector>

#include "engine/opened_model.h"
#include "engine/tuned_formats.h"
#include "engine/weight_options.h"
#include "model/parameters.h"
#include "options/saved_preset.h"

namespace lacuna {

/// Fingerprint of the model's files (model/fingerprint.h), or of the name of a "random:" model.
std::string model_hash(const ModelSource& source, const std::string& name);

/// The formats in the notation of a preset's file.
PresetFormats preset_formats(const WeightFormats& formats);

/// Formats and options after a preset was applied.
struct ResolvedRun {
  FormatNames formats;
  GenerationOptions options;
  std::vector<std::string> warnings;  ///< differences from the conditions under which the preset was tuned
};

/// Applies the saved preset that options.preset names: its settings replace missing ones, and its formats
/// replace "auto". Without a preset, or with a built-in one of the family, nothing changes. Throws
/// SettingError for `preset` or `guide` if the files of the model or guide differ from those that were tuned,
/// and InputError if the preset's file is damaged.
///   name   the model's name
///   guide  null: none
ResolvedRun resolve_run(const ModelSource& source, const std::string& name, const GuideSource* guide,
                        const FormatNames& formats, const GenerationOptions& options);

/// Applies a saved preset to the options for an opened model. Throws SettingError if its formats differ from
/// those that were tuned.
///   formats  formats of the loaded weights; null: unknown
GenerationOptions resolve_options(const OpenedModel& opened, const WeightFormats* formats,
                                  const GenerationOptions& options);

/// The saved presets of this model, by name.
std::vector<SavedPreset> saved_presets_of(const ModelSource& source, const std::string& name);

}  // namespace lacuna
