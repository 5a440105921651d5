#include "served_models.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <utility>

#include "backend/shard/mpi.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include "options/choose.h"
#include "terminal.h"

namespace lacuna {
namespace {

constexpr int64_t kMinKvBytes = int64_t{64} << 20;

/// The flags of one model.
GuidedModelFlags flags_of(const ServedModelFlags& flags, const std::string& model) {
  GuidedModelFlags own = flags;
  own.model = model;
  return own;
}

/// Whether the model is sharded and the server starts its ranks, instead of mpirun.
bool has_rank_job(const ServedModelFlags& flags) {
  return flags.is_sharded() && !is_started_by_mpi();
}

void set_prefix_memory(const ServedModelFlags& flags, SchedulerLimits& limits) {
  limits.prefix_memory = flags.prefix_memory ? *flags.prefix_memory << 20 : limits.memory / 4;
}

/// Loads a model and reports it.
///   limits  unset limits that depend on free memory are set here
std::shared_ptr<InferenceSession> load_served(const ServedModelFlags& flags, const std::string& model,
                                              const std::shared_ptr<const OpenedModel>& opened,
                                              const ModelSource& source, SchedulerLimits& limits) {
  const GuidedModelFlags own = flags_of(flags, model);
  std::string version = weights_version(flags, source);
  const LoadedModel loaded =
      has_rank_job(flags) ? load_on_job(own, source, flags.job) : load_model(own, source);
  if (limits.memory == 0) {
    limits.memory = available_memory().bytes / (2 * std::max(1, flags.ranks));
    set_prefix_memory(flags, limits);
  }
  InferenceSession::Parts parts{loaded.model, load_guide(own, opened->guide(), loaded), std::move(version)};
  print_message("loaded {} in {:.1f} s ({}, {} MiB, {}, {} threads, {} MiB for K/V)\n", model,
                loaded.load_seconds, name_of(loaded.model->dtype()), loaded.model->weight_bytes() >> 20,
                loaded.model->device(), loaded.device->threads().size(), limits.memory >> 20);
  const std::string faster = faster_weights(weight_formats(own, source), source.config,
                                            loaded.model->weight_bytes(), loaded.model->device());
  if (!faster.empty()) print_message("faster here: {}\n", faster);
  return std::make_shared<InferenceSession>(opened, std::move(parts), limits);
}

/// The path of a client's folder below --reload-from. Throws InputError if it is not below.
std::filesystem::path reloaded_folder(const std::string& reload_from, const std::string& folder) {
  constexpr size_t kLongest = 1024;
  const std::filesystem::path named(folder);
  if (folder.empty() || folder.size() > kLongest || folder.find('\0') != std::string::npos ||
      named.is_absolute())
    throw InputError("{} is not a relative path of 1 to {} characters", in_quotes(folder.substr(0, 80)),
                     kLongest);
  std::error_code error;
  const std::filesystem::path root = std::filesystem::canonical(reload_from, error);
  std::filesystem::path path =
      error ? std::filesystem::path() : std::filesystem::canonical(root / named, error);
  // Compares resolved paths, so that links out of the root are refused too.
  const auto [end, differs] = std::mismatch(root.begin(), root.end(), path.begin(), path.end());
  if (error || end != root.end() || path == root)
    throw InputError("there is no {} below the folder of --reload-from", in_quotes(folder));
  return path;
}

/// Returns a function that loads weights of another folder in place of the model's.
PoolModel::Load other_weights(const ServedModelFlags& flags, const std::shared_ptr<const OpenedModel>& opened,
                              const std::shared_ptr<SchedulerLimits>& limits, const std::string& folder) {
  const std::filesystem::path path = reloaded_folder(flags.reload_from, folder);
  const GuidedModelFlags own = flags_of(flags, path.native());
  ModelSource source = find_model(own);
  source.config.unknown_keys = opened->source().config.unknown_keys;  // unknown keys have no effect
  if (source.config != opened->source().config) {
    throw InputError(
        "{} has another config.json than the served model; expected the same architecture and sizes",
        in_quotes(folder));
  }
  return [flags, opened, limits, source, model = path.native()] {
    return load_served(flags, model, opened, source, *limits);
  };
}

void check_reload(const ServedModelFlags& flags, const ServedModels& served) {
  if (flags.reload_from.empty()) return;
  if (flags.is_sharded() && !has_rank_job(flags))
    throw InputError("--reload-from: expected no start by mpirun; start the ranks with --launch");
  if (served.models.size() > 1)
    throw InputError("--reload-from has no effect here: it requires a single --model");
  if (served.preset)
    throw InputError("--reload-from: preset {} was tuned for the weights of this model alone",
                     served.preset->name);
  if (!std::filesystem::is_directory(flags.reload_from))
    throw InputError("--reload-from {}: expected a folder", flags.reload_from);
}

/// Sets the model's size and its K/V limit, as a share of the memory for all models.
void share_memory(const ServedModelFlags& flags, int64_t budget, PoolModel& model) {
  const GuidedModelFlags own = flags_of(flags, model.opened->name());
  const RunMemory run =
      predict_run_memory(model.opened->source(), weight_formats(own, model.opened->source()), 1024);
  const int64_t rest = budget - run.weights - run.buffers;
  const int64_t wanted =
      flags.kv_memory > 0 ? flags.kv_memory << 20 : budget / (2 * static_cast<int64_t>(flags.models.size()));
  const int64_t kv = flags.kv_memory > 0 ? wanted : std::min(wanted, rest);
  if (rest < std::max(kv, kMinKvBytes) && !flags.ignore_memory) {
    throw InputError("{} needs {} without its K/V, and {} for them; --models-memory is {}", model.name,
                     human_bytes(run.weights + run.buffers), human_bytes(std::max(kv, kMinKvBytes)),
                     human_bytes(budget));
  }
  model.limits.memory = std::max(kv, kMinKvBytes);
  set_prefix_memory(flags, model.limits);
  model.bytes = std::min(budget, run.weights + run.buffers + model.limits.memory);
}

}  // namespace

NamedModel split_model_name(const std::string& given) {
  const size_t equals = given.find('=');
  constexpr std::string_view kOfNames = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  // The "=" of "random:llada-8b,layers=4" does not follow a name.
  if (equals != std::string::npos && equals > 0 && given.find_first_not_of(kOfNames) == equals) {
    return {given.substr(0, equals), given.substr(equals + 1)};
  }
  std::filesystem::path path(given);
  if (path.filename().empty()) path = path.parent_path();  // "models/mini-llada/"
  const std::string name = path.extension() == ".gguf" ? path.stem().string() : path.filename().string();
  return {name.empty() ? given : name, given};
}

ServedModels open_served_models(const ServedModelFlags& given_flags) {
  ServedModelFlags flags = given_flags;
  const bool is_alone = flags.models.size() == 1;
  if (!is_alone && !flags.guide.empty())
    throw InputError("--guide has no effect here: it requires a single --model");
  if (!is_alone && !flags.name.empty()) {
    throw InputError("--name has no effect here: several models have theirs as --model NAME=MODEL");
  }
  if (!is_alone && !flags.adapters.empty())
    throw InputError("--lora {}: expected one --model, whose weights the adapter changes",
                     flags.adapters.front());
  if (!is_alone && flags.is_sharded())
    throw InputError("--shard {}: expected one --model, which all ranks compute", flags.shard);
  ServedModels served;
  served.defaults = flags.generation;
  std::set<std::string> names;
  for (const std::string& given : flags.models) {
    NamedModel named = split_model_name(given);
    const bool has_own_name = named.model != given;
    if (is_alone && !flags.name.empty()) named.name = flags.name;
    if (is_alone && flags.name.empty() && !has_own_name) named.name = given;
    if (!names.insert(named.name).second) {
      throw InputError("--model names two models {}; expected NAME=MODEL with different names", named.name);
    }
    PoolModel model{named.name, open_model(flags_of(flags, named.model), flags.prompt_template)};
    warn_without_template(*model.opened, flags.prompt_template);
    if (is_alone) {
      if (flags.generation.preset) served.preset = load_saved_preset(*flags.generation.preset);
      ModelFlags own = flags_of(flags, named.model);
      served.defaults = resolve_run(own, *model.opened, flags.generation);
      static_cast<FormatNames&>(flags) = own;
    }
    if (model.opened->guide() == nullptr) check_options(model.opened->config(), served.defaults);
    model.limits = flags.limits;
    model.limits.memory = flags.kv_memory << 20;  // 0: set when the model is loaded
    if (is_alone && flags.kv_memory > 0) set_prefix_memory(flags, model.limits);
    served.models.push_back(std::move(model));
  }
  served.limits.idle_seconds = flags.unload_seconds;
  if (has_rank_job(flags)) served.limits.restarts = flags.rank_restarts;
  if (!flags.job.launch.empty() && !has_rank_job(flags))
    throw InputError("--launch {}: expected --shard, and no start by mpirun", flags.job.launch);
  served.limits.max_waiting = static_cast<size_t>(flags.limits.max_queue);
  if (!is_alone) {
    served.limits.bytes = flags.models_memory ? *flags.models_memory << 20 : available_memory().bytes;
    for (PoolModel& model : served.models) share_memory(flags, served.limits.bytes, model);
  }
  check_reload(flags, served);
  for (PoolModel& model : served.models) {
    const auto limits = std::make_shared<SchedulerLimits>(model.limits);  // read by the pool's thread
    model.load = [flags, opened = model.opened, limits] {
      return load_served(flags, opened->name(), opened, opened->source(), *limits);
    };
    if (flags.reload_from.empty()) continue;
    model.other_weights = [flags, opened = model.opened, limits](const std::string& folder) {
      return other_weights(flags, opened, limits, folder);
    };
  }
  return served;
}

}  // namespace lacuna
