// From what a person types after --model to a folder.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace lacuna {

/// Where models are looked for.
struct ModelPlaces {
  std::vector<std::filesystem::path>
      model_folders;  ///< each may hold a folder per model, in order of preference
  std::filesystem::path
      hub_cache;  ///< of Hugging Face's tools: models--ORG--NAME/snapshots/...; may be empty

  /// $LACUNA_MODELS if set, then models/ in the current folder. The hub cache is $HF_HUB_CACHE, else
  /// $HF_HOME/hub, else ~/.cache/huggingface/hub.
  static ModelPlaces from_environment();
};

/// The folder that holds the config.json of `argument`: a folder; a name in a model folder; or ORG/NAME in
/// the hub cache, at the commit that its refs/main names. The first that exists, in this order. A .gguf file
/// is its own answer. Throws InputError that says where it looked.
std::filesystem::path locate_model(std::string_view argument,
                                   const ModelPlaces& places = ModelPlaces::from_environment());

}  // namespace lacuna
