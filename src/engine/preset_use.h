// Using a preset that `lacuna tune --save` wrote: is this the model it was made for?
#pragma once

#include <string>
#include <vector>

#include "engine/opened_model.h"
#include "engine/tuned_formats.h"
#include "engine/weight_options.h"
#include "model/parameters.h"
#include "options/saved_preset.h"

namespace lacuna {

/// Fingerprint of the model's files (model/fingerprint.h); of a random: model, of its name.
std::string model_hash(const ModelSource& source, const std::string& name);

/// The formats as a preset's file names them.
PresetFormats preset_formats(const WeightFormats& formats);

/// How a model is loaded and run.
struct ResolvedRun {
  FormatNames formats;
  GenerationOptions options;
  std::vector<std::string> warnings;  ///< a sentence for all that a preset's promise was not made for
};

/// The options as they were given, with what options.preset sets if it names a saved preset: its settings
/// where none was given, and the formats that were tuned where they say "auto". Options without a preset, or
/// with one of the family's, stay as they are. SettingError, of `preset` or `guide`, where the model or the
/// guide has other files than those that were tuned; InputError where the preset's file is damaged.
///   name   of the model
///   guide  null: none
ResolvedRun resolve_run(const ModelSource& source, const std::string& name, const GuideSource* guide,
                        const FormatNames& formats, const GenerationOptions& options);

/// The options of a run of a model that is open. SettingError where it is loaded with other formats than
/// those that were tuned.
///   formats  how it is loaded; null: unknown
GenerationOptions resolve_options(const OpenedModel& opened, const WeightFormats* formats,
                                  const GenerationOptions& options);

/// The saved presets of this model, by name.
std::vector<SavedPreset> saved_presets_of(const ModelSource& source, const std::string& name);

}  // namespace lacuna
