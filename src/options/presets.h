// Presets: named settings, chosen by measurement. docs/results/README.md has the settings that were compared
// and their results.
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
/// baseline, "balanced" lost at most a point of accuracy on the models that ship, "fast" at most ten. If one
/// setting is best for both, the two are equal. No preset sets a length or a guide.
std::span<const Preset> presets_of(const ModelConfig& config);

/// The preset as flags: "--cache dkv --eos-exit"; "the defaults" if it sets nothing.
std::string describe(const Preset& preset);

/// Fills options that were not given from options.preset, and clears it. Settings of the preset that would
/// contradict given ones are left out, so that a preset never makes valid options invalid. Throws
/// SettingError for an unknown preset.
GenerationOptions with_preset(const ModelConfig& config, GenerationOptions options);

}  // namespace lacuna
