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
  int rank_restarts = 5;            ///< consecutive restarts of failed ranks at most
  std::string reload_from;          ///< folder below which clients may load weights; empty: not allowed
  std::vector<std::string> models;  ///< values of -m: MODEL or NAME=MODEL
  std::string name;                 ///< name for clients if there is one model; empty: derived from -m
  TemplateFlags prompt_template;
  std::optional<int64_t> models_memory;  ///< MiB for all loaded models
  double unload_seconds = 0;             ///< idle time before a model is unloaded; 0: never
  int64_t kv_memory = 0;  ///< MiB per model; 0: half of the free memory, less with several models
  std::optional<int64_t> prefix_memory;  ///< MiB; default: a quarter of kv_memory
  SchedulerLimits limits;
  GenerationOptions generation;
};

/// The two parts of "NAME=MODEL"; without NAME, it is the path's last part without ".gguf".
struct NamedModel {
  std::string name, model;
};
NamedModel split_model_name(const std::string& given);

/// Opened models, before their weights are read. open_served_models() reports errors in the flags with
/// InputError. Several models are loaded on demand.
struct ServedModels {
  std::vector<PoolModel> models;
  PoolLimits limits;
  GenerationOptions defaults;  ///< settings for fields that a request omits, from flags and a saved preset
  std::optional<SavedPreset> preset = {};  ///< preset that the flags name
};
ServedModels open_served_models(const ServedModelFlags& flags);

}  // namespace lacuna
