// Adapters that are merged into a model's weights while these are read (weights/lora.h). Adapters name the
// modules of the published model; the weights may have any supported file format.
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

/// Finds an adapter by FOLDER[=SCALE]: a folder, or ORG/NAME[@REVISION] of the hub cache. Throws InputError,
/// beginning with `flag`, if there is no such adapter.
AdapterChoice find_adapter(std::string_view text, std::string_view flag,
                           const ModelPlaces& places = ModelPlaces::from_environment());

/// Result of with_adapters().
struct AdaptedModel {
  ModelConfig config;
  /// Number of quantized matrices that the adapters change. Merged matrices are dense.
  int64_t num_dequantized = 0;
};

/// Adds adapters to a config, for open_weights(). Throws InputError if an adapter's tensor has no place in
/// the model, or another shape than the model's.
///   folder  folder of the model, or its .gguf file
AdaptedModel with_adapters(const std::filesystem::path& folder, const ModelConfig& config,
                           std::vector<AdapterChoice> adapters);

/// Weights with adapters merged in.
class AdaptedWeights : public WeightSource {
 public:
  /// Whether the adapters change the matrix of this module.
  virtual bool changes(std::string_view module) const = 0;
  /// Whether the adapters change this vector.
  virtual bool changes_values(std::string_view name) const = 0;
};

/// Merges the adapters of `config` into the weights, row by row in f32 on reading. Changed matrices become
/// dense.
std::unique_ptr<AdaptedWeights> merge_adapters(std::unique_ptr<WeightSource> base, const ModelConfig& config);

/// The weights of a checkpoint folder or a GGUF file, with the adapters of `config`. Throws InputError, also
/// from expect_no_unread_tensors().
std::unique_ptr<WeightSource> open_weights(const std::filesystem::path& folder, const ModelConfig& config);

/// Fingerprint of the model's files and of its adapters with their scales.
std::string fingerprint_of(const std::filesystem::path& model, std::span<const AdapterChoice> adapters);

}  // namespace lacuna
