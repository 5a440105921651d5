#include "model/locate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "base/nearest.h"
#include "base/system.h"

namespace lacuna {

extern const char* const kSourceModels;  // CMake writes its file

namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxNames = 1000;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool holds_config(const fs::path& folder) {
  return is_there(folder / "config.json");
}

/// A name that stays inside the folder it is appended to.
bool is_plain_name(std::string_view name) {
  return is_relative_file(name) && name.find('/') == name.npos;
}

void add_folder(std::vector<fs::path>& folders, const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) return;
  const auto is_same = [&](const fs::path& other) { return fs::equivalent(folder, other, ignored); };
  if (std::none_of(folders.begin(), folders.end(), is_same)) folders.push_back(folder);
}

/// GGUF files below a snapshot, only the first part of split ones, sorted by name.
std::vector<fs::path> gguf_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  for (; !error && entry != fs::end(entry) && files.size() < kMaxNames; entry.increment(error)) {
    const std::string stem = entry->path().stem().string();
    const size_t part = stem.rfind("-of-");
    const bool is_later_part = part != stem.npos && part >= 5 && stem.compare(part - 5, 5, "00001") != 0;
    if (entry->path().extension() == ".gguf" && !is_later_part) files.push_back(entry->path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool contains_ignoring_case(const std::string& text, const std::string& part) {
  const auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); };
  return std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

std::string pull_command(const HubModel& model) {
  return fmt::format("`lacuna pull {}`", model.text());
}

/// The model in a snapshot: its folder, or its only GGUF file.
fs::path model_in(const fs::path& snapshot, const HubModel& model) {
  if (model.quant.empty() && holds_config(snapshot)) return snapshot;
  std::vector<fs::path> files = gguf_files(snapshot);
  std::erase_if(files, [&](const fs::path& file) {
    return !contains_ignoring_case(file.filename().string(), model.quant);
  });
  if (files.size() == 1) return files.front();
  if (files.empty()) {
    throw InputError("{}: holds no {}; expected a complete download of \"{}\", which {} makes",
                     snapshot.string(), model.quant.empty() ? "config.json" : "GGUF file of " + model.quant,
                     model.text(), pull_command(model));
  }
  throw InputError("{}: holds {} GGUF files; expected the path of one, or {}:QUANT with the end of its name",
                   snapshot.string(), files.size(), model.id());
}

/// Empty if the cache does not have the model.
std::optional<fs::path> find_download(const HubCache& cache, const HubModel& model) {
  if (cache.empty()) return {};
  if (const std::optional<std::string> commit = cache.commit(model)) {
    return model_in(cache.snapshot(model, *commit), model);
  }
  if (!cache.has_partial_blobs(model)) return {};
  throw InputError("{} is downloaded in part; {} completes it (expected a complete download in {})",
                   model.text(), pull_command(model), cache.repository(model).string());
}

/// All names that can be resolved.
std::vector<std::string> known_names(const ModelPlaces& places) {
  std::vector<std::string> names;
  for (const fs::path& folder : places.model_folders) {
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end && names.size() < kMaxNames;
         entry.increment(error)) {
      if (holds_config(entry->path())) names.push_back(entry->path().filename().string());
    }
  }
  for (const HubModel& model : places.hub_cache.models(kMaxNames)) names.push_back(model.id());
  return names;
}

[[noreturn]] void refuse_unknown(std::string_view argument, const ModelPlaces& places,
                                 const std::optional<HubModel>& model) {
  std::string hint;
  // The misspelled part may be the organization or the name after it.
  if (const std::string near = nearest_name(argument, known_names(places)); !near.empty()) {
    hint = fmt::format("did you mean {}? ", in_quotes(near));
  }
  if (model) hint += fmt::format("{} downloads it if the hub has it; ", pull_command(*model));
  std::vector<std::string> looked_in = {"the current folder"};
  if (is_plain_name(argument)) {
    for (const fs::path& folder : places.model_folders) looked_in.push_back(folder.string());
  }
  if (model && !places.hub_cache.empty()) looked_in.push_back(places.hub_cache.root().string());
  throw InputError(
      "There is no model {}: {}expected a folder, a .gguf file, a name that `lacuna list` shows, ORG/NAME "
      "from the "
      "hub or random:NAME (looked in {})",
      in_quotes(argument), hint, fmt::join(looked_in, ", "));
}

/// Describes missing weights; empty if none are missing.
std::string missing_weights(const fs::path& folder) {
  if (is_there(folder / "model.safetensors")) return {};
  const fs::path index = folder / "model.safetensors.index.json";
  if (is_there(index)) {
    const MappedFile file = MappedFile::open(index);
    const nlohmann::json json = parse_json(file.text(), index.string());
    const JsonObject map = JsonObject(json, index.string()).object("weight_map");
    for (const std::string& tensor : map.keys()) {
      std::string shard = map.text(tensor);
      if (is_relative_file(shard) && !is_there(folder / shard)) return shard;
    }
    return {};
  }
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() == ".safetensors") return {};
  }
  return "model.safetensors";
}

}  // namespace

fs::path program_file() {
  const char* const given = std::getenv("LACUNA_PROGRAM");
  if (given != nullptr && *given != '\0') return given;
  return running_program();
}

ModelPlaces ModelPlaces::from_environment() {
  ModelPlaces places;
  const char* const folder = std::getenv("LACUNA_MODELS");
  if (folder != nullptr && *folder != '\0') places.model_folders.emplace_back(folder);
  places.model_folders.emplace_back("models");
  const fs::path program = program_file();
  if (!program.empty()) {
    for (const char* const relative : {"models", "../share/lacuna/models", "../../models"}) {
      add_folder(places.model_folders, (program.parent_path() / relative).lexically_normal());
    }
  }
  add_folder(places.model_folders, kSourceModels);
  places.hub_cache = HubCache::from_environment();
  return places;
}

fs::path locate_model(std::string_view argument, const ModelPlaces& places) {
  fs::path path(argument);
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (fs::is_directory(status)) {
    if (holds_config(path)) return path;
    throw InputError("{}: holds no config.json; expected a checkpoint folder", path.string());
  }
  if (fs::exists(status)) {
    if (path.extension() == ".gguf") return path;
    throw InputError(
        "{}: is a file; expected the folder that holds config.json and the weights, or a .gguf file",
        path.string());
  }

  if (is_plain_name(argument)) {
    for (const fs::path& folder : places.model_folders) {
      if (holds_config(folder / path)) return folder / path;
    }
  }
  const std::optional<HubModel> model = HubModel::parse(argument);
  if (model) {
    if (std::optional<fs::path> found = find_download(places.hub_cache, *model)) return *found;
  }
  refuse_unknown(argument, places, model);
}

void require_whole_download(const fs::path& folder) {
  const fs::path repository = folder.parent_path().parent_path();
  std::optional<HubModel> model = HubModel::of_repository(repository.filename().string());
  if (folder.parent_path().filename() != "snapshots" || !model) return;
  const std::string missing = missing_weights(folder);
  if (missing.empty()) return;
  const std::string commit = folder.filename().string();
  if (HubCache(repository.parent_path()).commit(*model) != commit) model->revision = commit;
  throw InputError("{}: {} is missing; expected a complete download, which {} makes", folder.string(),
                   missing, pull_command(*model));
}

}  // namespace lacuna
