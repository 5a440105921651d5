// Adapters that are merged into a model's weights as these are read (weights/lora.h). They name the modules
// of the published model; the weights may be in any file that the model is read from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "model/locate.h"
#include "weights/stored_matrix.h"

namespace lacuna {

/// An adapter as people name it, FOLDER[=SCALE]: a folder, or ORG/NAME[@REVISION] of the hub cache. Throws
/// InputError, beginning with `flag`, where nothing of that name holds an adapter.
AdapterChoice find_adapter(std::string_view text, std::string_view flag,
                           const ModelPlaces& places = ModelPlaces::from_environment());

/// Result of with_adapters().
struct AdaptedModel {
  ModelConfig config;
  /// Matrices that the checkpoint has quantized and that the adapters change. Merged, they are dense.
  int64_t num_dequantized = 0;
};

/// The config of a model with adapters, from which open_weights() knows them. Throws InputError where a
/// tensor of theirs has no place in the model, or another shape than it.
///   folder  of the model, or its .gguf file
AdaptedModel with_adapters(const std::filesystem::path& folder, const ModelConfig& config,
                           std::vector<AdapterChoice> adapters);

/// Weights with adapters.
class AdaptedWeights : public WeightSource {
 public:
  /// Whether the adapters change the matrix of this module.
  virtual bool changes(std::string_view module) const = 0;
  /// Whether they change this vector.
  virtual bool changes_values(std::string_view name) const = 0;
};

/// The weights with the adapters of `config`, each row merged in f32 when it is read. Matrices that they
/// change are dense.
std::unique_ptr<AdaptedWeights> merge_adapters(std::unique_ptr<WeightSource> base, const ModelConfig& config);

/// The weights of a checkpoint folder or a GGUF file, with the adapters of `config`. Throws InputError, also
/// where expect_no_unread_tensors() does.
std::unique_ptr<WeightSource> open_weights(const std::filesystem::path& folder, const ModelConfig& config);

/// fingerprint_of() of the model's files and of its adapters with their scales.
std::string fingerprint_of(const std::filesystem::path& model, std::span<const AdapterChoice> adapters);

}  // namespace lacuna
