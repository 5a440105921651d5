// The models that `lacuna serve` may load, from its flags.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/scheduler.h"
#include "loading.h"
#include "options/options.h"
#include "options/saved_preset.h"
#include "rank_job.h"
#include "server/model_pool.h"

namespace lacuna {

struct ServedModelFlags : GuidedModelFlags {
  RankJobFlags job;
  int rank_restarts = 5;            ///< in a row
  std::string reload_from;          ///< folder of folders whose weights clients may load; empty: they may not
  std::vector<std::string> models;  ///< as -m has them: MODEL, or NAME=MODEL
  std::string name;                 ///< name for clients if there is one model; empty: the one from -m
  TemplateFlags prompt_template;
  std::optional<int64_t> models_memory;  ///< MiB for all that are loaded
  double unload_seconds = 0;             ///< 0: never for being idle
  int64_t kv_memory = 0;                 ///< MiB of each model; 0: half of what is free, less with several
  std::optional<int64_t> prefix_memory;  ///< MiB; default: a quarter of kv_memory
  SchedulerLimits limits;
  GenerationOptions generation;
};

/// "NAME=MODEL" apart; without NAME, the last part of a path, less ".gguf".
struct NamedModel {
  std::string name, model;
};
NamedModel split_model_name(const std::string& given);

/// Opens the models, so that whatever may be wrong with the flags is said before weights are read. Several
/// models are loaded when they are asked for. Throws InputError.
struct ServedModels {
  std::vector<PoolModel> models;
  PoolLimits limits;
  GenerationOptions defaults;  ///< settings that a request does not give: by flags and a saved preset
  std::optional<SavedPreset> preset = {};  ///< preset that the flags name
};
ServedModels open_served_models(const ServedModelFlags& flags);

}  // namespace lacuna
