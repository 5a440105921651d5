// Resolves the argument of --model to a folder.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/hub_cache.h"

namespace lacuna {

/// The file that starts this program: the environment's LACUNA_PROGRAM, which archives with a launcher set,
/// else the process's executable; empty if unknown.
std::filesystem::path program_file();

/// Where models are looked for.
struct ModelPlaces {
  std::vector<std::filesystem::path> model_folders;  ///< searched in order; each may hold a folder per model
  HubCache hub_cache{{}};

  /// $LACUNA_MODELS if set, models/ in the current folder, then the folders of bundled models: an
  /// installation's share/lacuna/models, models/ next to a build folder, and that of the source tree. See
  /// HubCache for the cache.
  static ModelPlaces from_environment();
};

/// Finds the folder with the config.json for `argument`, the first that exists of: a folder; a name in a
/// model folder; ORG/NAME[@REVISION][:QUANT] in the hub cache. Returns a .gguf file itself, also that of a
/// download without safetensors. Throws InputError with the searched places and a similar name or the command
/// that downloads the model.
std::filesystem::path locate_model(std::string_view argument,
                                   const ModelPlaces& places = ModelPlaces::from_environment());

/// Throws InputError if `folder` is a hub cache snapshot without weights, or without a shard that its index
/// names; the message gives the command that completes it.
void require_whole_download(const std::filesystem::path& folder);

}  // namespace lacuna
