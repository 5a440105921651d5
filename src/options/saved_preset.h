// Presets that `lacuna tune --save` writes: settings for one model, with the certificate of their promise.
// docs/reference/files.md describes the file. It is untrusted: every value is checked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "options/options.h"
#include "options/tuning_paths.h"

namespace lacuna {

/// Number formats of a model, named like the flags: dtype, weights, head-weights, kv-cache, activations.
struct PresetFormats {
  std::string dtype, weights, head_weights, kv_cache, activations;

  bool operator==(const PresetFormats&) const = default;
};

/// The promise of a preset, and the evidence for it.
struct Certificate {
  std::string loss;          ///< "changed-answer", "wrong-answer", "token", "kl" or "judge"
  double risk = 0;           ///< requested bound of the mean loss, (0, 1)
  double confidence = 0;     ///< (0, 1)
  double bound = 0;          ///< upper bound of the mean loss of this setting taken alone, (0, 1]
  int64_t prompts = 0;       ///< prompts used for certification
  double losses = 0;         ///< sum of the losses over these prompts
  std::string prompts_name;  ///< "task arithmetic" or the name of a file
  std::string prompts_hash;  ///< 16 hexadecimal digits
  /// Settings were compared by the time that their FLOPs and bytes take on a machine of this speed.
  double peak_flops = 0;       ///< per second
  double peak_bandwidth = 0;   ///< bytes per second
  double predicted_ratio = 0;  ///< predicted time relative to the uncached baseline, on these prompts
  double flops_ratio = 0;      ///< the same ratio for FLOPs; below for rows and seconds
  double rows_ratio = 0;
  double seconds_ratio = 0;
  std::string date;     ///< date, "2026-05-31"
  std::string version;  ///< version of Lacuna that made the preset

  bool operator==(const Certificate&) const = default;
};

struct SavedPreset {
  std::string name;
  std::vector<TuningSetting> settings;     ///< generation options that were tuned
  std::vector<TuningSetting> loading;      ///< formats that were tuned: "weights", "kv-cache"
  std::vector<TuningSetting> tested_with;  ///< the user's settings, such as lengths
  std::string model;                       ///< as --model named it
  std::string model_hash;                  ///< fingerprint_of() (model/fingerprint.h)
  std::string guide;                       ///< as --guide named it; empty: no guide
  std::string guide_hash;                  ///< fingerprint of the guide
  PresetFormats formats;                   ///< formats of the preset
  PresetFormats baseline_formats;          ///< formats of the baseline that it was compared with
  Certificate certificate;

  bool operator==(const SavedPreset&) const = default;
};

/// Most bytes of a preset's file.
inline constexpr size_t kMaxPresetBytes = size_t{1} << 16;
/// Most presets that saved_presets() reads.
inline constexpr size_t kMaxSavedPresets = 1000;

/// Whether a preset may be saved under this name: 1 to 64 lower-case letters, digits, ".", "_" or "-", the
/// first a letter or digit, and not exact, balanced or fast.
bool is_preset_name(std::string_view name);
/// Whether the name is that of a family's preset: exact, balanced or fast.
bool is_family_preset(std::string_view name);

/// $XDG_CONFIG_HOME/lacuna/presets, else ~/.config/lacuna/presets; empty if neither is set.
std::filesystem::path presets_folder();

nlohmann::ordered_json to_json(const SavedPreset& preset);
/// Throws InputError that begins with `file`.
SavedPreset parse_saved_preset(std::string_view text, const std::string& file);

/// The preset of this name; empty if there is no such file. Throws InputError if it is damaged.
std::optional<SavedPreset> load_saved_preset(std::string_view name);
/// All readable presets, ordered by name; damaged ones are left out.
std::vector<SavedPreset> saved_presets();
/// Writes the preset's file atomically, and returns its path. Throws InputError.
std::filesystem::path save_preset(const SavedPreset& preset);

/// Fills options that were not given from the preset (`settings` and `tested_with`), and clears
/// options.preset. Throws SettingError.
GenerationOptions with_saved_preset(const SavedPreset& preset, GenerationOptions options);

/// All tuned settings: generation options, then formats.
std::vector<TuningSetting> all_settings(const SavedPreset& preset);

/// Names of the `given` settings that differ from those for which the promise was made.
std::vector<std::string> overridden_settings(const SavedPreset& preset, const GenerationOptions& given);

/// The given settings, as texts.
std::vector<TuningSetting> given_settings(const GenerationOptions& options);

}  // namespace lacuna
