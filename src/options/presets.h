// Settings under one name, chosen by measurement: docs/results/README.md says which settings were compared
// and what each of these gives.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "model/config.h"
#include "options/options.h"

namespace lacuna {

struct PresetSetting {
  std::string_view name;   ///< name in visit_options()
  std::string_view value;  ///< as the command line takes it; empty for a flag
};

struct Preset {
  std::string_view name;
  std::span<const PresetSetting> settings;  ///< empty: the family's defaults
};

/// The presets of the model's family, in this order: "exact" gives the text of the family's uncached
/// baseline, "balanced" lost at most a point of accuracy on the models that ship, "fast" at most ten. Where
/// one setting is the best of both kinds, the two are alike. None chooses a length or a guide.
std::span<const Preset> presets_of(const ModelConfig& config);

/// The preset as flags: "--cache dkv --eos-exit"; "the defaults" where it sets nothing.
std::string describe(const Preset& preset);

/// The options with what options.preset sets wherever nothing was given, and without a preset. What was given
/// goes first: a setting of the preset that would contradict it is left out, so that no preset makes options
/// invalid that are valid without. Throws SettingError for an unknown preset.
GenerationOptions with_preset(const ModelConfig& config, GenerationOptions options);

}  // namespace lacuna
