#include "model/locate.h"

#include <cstdlib>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"

namespace lacuna {
namespace {

namespace fs = std::filesystem;

/// Empty if the variable is not set.
fs::path from_variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

bool holds_config(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "config.json", ignored);
}

/// A name that stays inside the folder it is appended to.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == name.npos;
}

/// The folder of the commit that the cache holds for ORG/NAME.
fs::path snapshot_folder(const fs::path& repository) {
  const fs::path reference = repository / "refs" / "main";
  const MappedFile file = MappedFile::open(reference);
  const std::string_view commit = file.text().substr(0, file.text().find_last_not_of(" \r\n") + 1);
  if (!is_plain_name(commit)) {
    throw InputError("{}: holds {}; expected the name of a commit", reference.string(), in_quotes(commit));
  }
  return repository / "snapshots" / commit;
}

}  // namespace

ModelPlaces ModelPlaces::from_environment() {
  ModelPlaces places;
  if (const fs::path folder = from_variable("LACUNA_MODELS"); !folder.empty())
    places.model_folders.push_back(folder);
  places.model_folders.emplace_back("models");
  const fs::path hub_cache = from_variable("HF_HUB_CACHE");
  const fs::path hugging_face = from_variable("HF_HOME");
  const fs::path home = from_variable("HOME");
  if (!hub_cache.empty()) {
    places.hub_cache = hub_cache;
  } else if (!hugging_face.empty()) {
    places.hub_cache = hugging_face / "hub";
  } else if (!home.empty()) {
    places.hub_cache = home / ".cache" / "huggingface" / "hub";
  }
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

  std::string looked_in = "the current folder";
  const size_t slash = argument.find('/');
  if (is_plain_name(argument)) {
    for (const fs::path& folder : places.model_folders) {
      if (holds_config(folder / path)) return folder / path;
      looked_in += ", " + folder.string();
    }
  } else if (slash != argument.npos && !places.hub_cache.empty()) {
    const std::string_view owner = argument.substr(0, slash);
    const std::string_view name = argument.substr(slash + 1);
    if (is_plain_name(owner) && is_plain_name(name)) {
      const fs::path repository =
          places.hub_cache / ("models--" + std::string(owner) + "--" + std::string(name));
      if (fs::is_directory(repository, ignored)) {
        fs::path snapshot = snapshot_folder(repository);
        if (holds_config(snapshot)) return snapshot;
        throw InputError("{}: holds no config.json; expected a complete download of {}", snapshot.string(),
                         in_quotes(argument));
      }
      looked_in += ", " + places.hub_cache.string();
    }
  }
  throw InputError(
      "There is no model {} (looked in {}); expected a folder, a .gguf file, a name under models/, ORG/NAME "
      "in the hub cache or random:NAME",
      in_quotes(argument), looked_in);
}

}  // namespace lacuna
