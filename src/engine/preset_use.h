// Using a preset that `lacuna tune --save` wrote: is this the model it was made for?
#pragma once

#include <string>
#include <vector>

#include "engine/opened_model.h"
#include "engine/weight_options.h"
#include "model/parameters.h"
#include "options/saved_preset.h"

namespace lacuna {

/// Fingerprint of the model's files (model/fingerprint.h); of a random: model, of its name.
std::string model_hash(const ModelSource& source, const std::string& name);

/// The formats as a preset's file names them.
PresetFormats preset_formats(const WeightFormats& formats);

/// Applies options.preset if it names a saved preset: the options with all that it sets and without
/// `preset`. Options without a preset, or with one of the family's, stay as they are. SettingError, of
/// `preset` or `guide`, where the model or the guide has other files than those that were tuned; InputError
/// where the preset's file is damaged.
///   name      of the model
///   guide     null: none
///   formats   how the model is loaded; null: unknown
///   warnings  gets a sentence for everything else that the promise was not made for. Null: no warnings, and
///             a model loaded with other formats than the tuned ones is refused
GenerationOptions use_saved_preset(const ModelSource& source, const std::string& name,
                                   const GuideSource* guide, const WeightFormats* formats,
                                   GenerationOptions options, std::vector<std::string>* warnings);
/// The same for a model that was opened, without warnings.
GenerationOptions use_saved_preset(const OpenedModel& opened, const WeightFormats* formats,
                                   GenerationOptions options);

/// The names with the formats that options.preset was tuned to, where it names a saved preset and they say
/// "auto". Throws InputError if the preset's file is damaged.
FormatNames with_preset_formats(FormatNames names, const GenerationOptions& options);

/// The saved presets of this model, by name.
std::vector<SavedPreset> saved_presets_of(const ModelSource& source, const std::string& name);

}  // namespace lacuna
