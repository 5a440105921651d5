// The settings that `lacuna tune` chooses among: for each method of the model's family a path of levels, from
// the most cautious to the boldest. Each level computes less than the one before it and is expected to change
// more answers; nothing that is promised depends on that expectation.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/config.h"
#include "options/options.h"

namespace lacuna {

/// A setting with its name in visit_options() and its command-line value (empty for a flag), or a format for
/// loading the model: "weights" or "kv-cache".
struct TuningSetting {
  std::string name;
  std::string value;

  bool operator==(const TuningSetting&) const = default;
};

struct TuningPath {
  std::string name;    ///< "cache dkv"
  std::string method;  ///< name in --methods; paths of one method exclude each other: "cache"
  std::vector<std::vector<TuningSetting>> levels;  ///< at least one
  bool uses_guide = false;
  bool is_of_loading = false;  ///< levels are formats of weights or K/V, not settings of generation
};

/// The paths of the model's family. engine/tuned_formats.h has those of formats.
///   asked      the user's settings: paths that would change one of them are left out
///   has_guide  whether a guide is available
std::vector<TuningPath> tuning_paths(const ModelConfig& config, const GenerationOptions& asked,
                                     bool has_guide);

/// Methods of these paths, each once, in order.
std::vector<std::string> methods_of(std::span<const TuningPath> paths);

/// The user's settings, completed by the family's uncached baseline: the published rule with one token per
/// step.
GenerationOptions baseline_options(const ModelConfig& config, const GenerationOptions& asked);

/// The options without the settings that reduce the work: presets, caches, locks, guides, sparse attention,
/// fewer steps, and rules that commit several tokens at once. Lengths, sampling and constraints stay.
GenerationOptions without_accelerations(GenerationOptions options);

/// The baseline's options with one level of each path applied; 0 is the baseline. Empty if two paths set the
/// same option to different values, or if one has a guide and another excludes it. Paths of loading set no
/// option.
///   levels  [paths.size()]
std::optional<GenerationOptions> tuned_options(const ModelConfig& config, const GenerationOptions& asked,
                                               std::span<const TuningPath> paths,
                                               std::span<const int32_t> levels);

/// The settings of these levels in the order of the paths, each once.
std::vector<TuningSetting> settings_of(std::span<const TuningPath> paths, std::span<const int32_t> levels);
/// The settings of these levels that say how the model is loaded.
std::vector<TuningSetting> loading_of(std::span<const TuningPath> paths, std::span<const int32_t> levels);

/// "--unmask threshold=0.9 --eos-exit"; empty without settings.
std::string describe(std::span<const TuningSetting> settings);

}  // namespace lacuna
