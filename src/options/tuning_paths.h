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

/// One setting as visit_options() names it and the command line takes it; of a flag the value is empty. One
/// that says how the model is loaded is "weights" or "kv-cache".
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

/// The paths of the model's family. Those of formats are engine/tuned_formats.h's.
///   asked      settings of the user's: paths that would change one of them are left out
///   has_guide  an autoregressive model is at hand
std::vector<TuningPath> tuning_paths(const ModelConfig& config, const GenerationOptions& asked,
                                     bool has_guide);

/// Methods of these paths, each once, in order.
std::vector<std::string> methods_of(std::span<const TuningPath> paths);

/// The user's settings, completed by those of the family's uncached baseline: the published
/// rule with one token per step.
GenerationOptions baseline_options(const ModelConfig& config, const GenerationOptions& asked);

/// The options without the settings that compute less: presets, caches, locks, guides, sparse attention,
/// fewer steps, and rules that commit several tokens at once. What is left (lengths, sampling, constraints)
/// stays.
GenerationOptions without_accelerations(GenerationOptions options);

/// The options of a level for each path, 0 for the baseline, laid over the baseline. Empty where two paths
/// set the same option to different values, or one has a guide and another excludes it. Paths of loading set
/// no option.
///   levels  [paths.size()]
std::optional<GenerationOptions> tuned_options(const ModelConfig& config, const GenerationOptions& asked,
                                               std::span<const TuningPath> paths,
                                               std::span<const int32_t> levels);

/// The settings of these levels in the order of the paths, each once.
std::vector<TuningSetting> settings_of(std::span<const TuningPath> paths, std::span<const int32_t> levels);
/// Those of them that say how the model is loaded.
std::vector<TuningSetting> loading_of(std::span<const TuningPath> paths, std::span<const int32_t> levels);

/// "--unmask threshold=0.9 --eos-exit"; empty without settings.
std::string describe(std::span<const TuningSetting> settings);

}  // namespace lacuna
