// From what a person types after --model to a folder.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/hub_cache.h"

namespace lacuna {

/// The file that starts this program: LACUNA_PROGRAM of the environment, which archives set whose program
/// needs another start, else the file of the process; empty where the system does not say.
std::filesystem::path program_file();

/// Where models are looked for.
struct ModelPlaces {
  std::vector<std::filesystem::path>
      model_folders;  ///< each may hold a folder per model, in order of preference
  HubCache hub_cache{{}};

  /// $LACUNA_MODELS if set, models/ in the current folder, then the folders that hold the models that ship:
  /// relative to the program (an installation's share/lacuna/models, models/ next to a build folder) and the
  /// source tree that it was built from. See HubCache for the cache.
  static ModelPlaces from_environment();
};

/// The folder that holds the config.json of `argument`: a folder; a name in a model folder; or
/// ORG/NAME[@REVISION][:QUANT] in the hub cache. The first that exists, in this order. A .gguf file is its
/// own answer; so is the one of a download that holds no safetensors. Throws InputError that says where it
/// looked, which name is near, or which command downloads the model.
std::filesystem::path locate_model(std::string_view argument,
                                   const ModelPlaces& places = ModelPlaces::from_environment());

/// Throws InputError where `folder` is a snapshot in a hub cache whose weights are missing, all or a shard
/// that its index names; the sentence says which command completes it.
void require_whole_download(const std::filesystem::path& folder);

}  // namespace lacuna
