// The flags that name a model and say how it is loaded, for every subcommand that computes.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "decode/setting_error.h"
#include "engine/opened_model.h"
#include "engine/weight_options.h"
#include "model/parameters.h"
#include "options/names.h"

namespace lacuna {

struct ShardFlags {
  std::string shard = "none";
  std::string link;          ///< bits per second, as link_speed() takes them; empty: measured
  int ranks = 0;             ///< processes on this machine; 0: mpirun started them
  double rank_timeout = 10;  ///< seconds without a response after which a rank counts as failed

  bool is_sharded() const { return shard != "none"; }
};

struct ModelFlags : FormatNames, ShardFlags {
  std::string model;
  std::string device = "auto";
  int threads = 0;
  bool pin = false;
  uint64_t random_seed = 0;
  double rope_scale = 1;
  bool ignore_memory = false;
  std::vector<std::string> ignored_config_keys;
  std::string paradigm = "auto";
  std::string pack_cache;             ///< --pack-cache, a folder; empty: none
  std::vector<std::string> adapters;  ///< --lora: FOLDER[=SCALE], merged one after the other
};

struct GuidedModelFlags : ModelFlags {
  std::string guide;  ///< empty: none
};

/// --shard, --ranks, --link.
void add_shard_flags(CLI::App& command, ShardFlags& flags);
/// Throws InputError if a shard flag has no effect.
void check_shard_flags(const ShardFlags& flags);
/// Throws InputError if --shard is given: `what` needs one process.
void refuse_shard(const ShardFlags& flags, const std::string& what);

/// --rank-timeout.
void add_rank_timeout_flag(CLI::App& command, ShardFlags& flags);
std::chrono::milliseconds heartbeat_timeout(const ShardFlags& flags);
/// Bytes per second of "10Gb", "100Mb" or "2.5Gb", as --link takes them. Throws InputError.
double link_speed(const std::string& text);

void add_model_flag(CLI::App& command, std::string& model);
void add_threads_flag(CLI::App& command, int& threads);
void add_placement_flags(CLI::App& command, bool& pin);
/// --dtype, --weights, --head-weights.
void add_format_flags(CLI::App& command, ModelFlags& flags);
/// --kv-cache.
void add_kv_cache_flag(CLI::App& command, std::string& kv_cache);
/// --device.
void add_device_flag(CLI::App& command, std::string& device);
/// --activations.
void add_activations_flag(CLI::App& command, std::string& activations);
/// --lora.
void add_lora_flag(CLI::App& command, std::vector<std::string>& adapters);
/// --ignore-config-keys, --paradigm.
void add_config_flags(CLI::App& command, ModelFlags& flags);
/// The choices of --ignore-config-keys and --paradigm.
ConfigChoices config_choices(const ModelFlags& flags);
/// config_choices() for a guide or judge; --paradigm does not apply.
ConfigChoices choices_of_other_models(const ModelFlags& flags);
/// --device, --dtype, --weights, --head-weights, --kv-cache, --activations, --threads, --pin, --numa,
/// --rope-scale, --ignore-memory, --pack-cache, --lora, add_config_flags(), add_shard_flags().
void add_loading_flags(CLI::App& command, ModelFlags& flags);
/// --model and add_loading_flags().
void add_model_flags(CLI::App& command, ModelFlags& flags);
/// --guide.
void add_guide_flag(CLI::App& command, std::string& guide);

/// Throws InputError naming `flag` unless --device is the CPU.
void require_cpu(const ModelFlags& flags, std::string_view flag);

/// Formats of weights and K/V from the flags. Throws InputError if they contradict each other.
WeightFormats weight_formats(const ModelFlags& flags, const ModelSource& source);
/// The format flags as FormatNames.
FormatNames format_names(const ModelFlags& flags);

/// Runs `action` and rethrows its SettingError as an InputError that names flags instead of fields.
template <typename Action>
auto in_flags(Action&& action) {
  try {
    return action();
  } catch (const SettingError& error) {
    throw InputError("{}", rename_fields(error.problem().sentence,
                                         [](std::string_view field) -> std::optional<std::string> {
                                           return "--" + with_dashes(field);
                                         }));
  }
}

}  // namespace lacuna
