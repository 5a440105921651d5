// The quantization settings in config.json of checkpoints that other programs quantized.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace lacuna {

/// The programs and libraries whose quantized checkpoints are read.
enum class QuantMethod : uint8_t { kMlx, kGptq, kAwq, kFp8, kCompressedTensors, kModelOpt, kBitsAndBytes };

/// The method as config.json spells it; "mlx" for kMlx, which config.json does not name.
std::string_view name_of(QuantMethod method);

/// Bits of a code, and number of inputs that share a scale; 0 if config.json does not say.
struct CodeSizes {
  int64_t bits = 0;
  int64_t group = 0;  ///< -1: all inputs

  bool operator==(const CodeSizes&) const = default;
};

/// Settings of the quantization. Shapes and types of the tensors decide how each matrix is stored; they must
/// not contradict these settings.
struct PublishedQuantization {
  QuantMethod method = QuantMethod::kMlx;
  CodeSizes sizes;
  std::map<std::string, CodeSizes, std::less<>> sizes_of;  ///< by module, for modules with other sizes
  std::vector<std::string> dense;                          ///< names or patterns of modules that stay dense
  std::array<int64_t, 2> block = {128, 128};               ///< outputs and inputs of a block of FP8 weights
  bool stores_zeros_less_one = false;                      ///< GPTQ version 1: zero points are stored less 1

  /// The module's own sizes, else `sizes`.
  const CodeSizes& sizes_for(std::string_view module) const;
};

/// Reads "quantization_config", "compression_config" or MLX's "quantization" of a config.json. Empty without
/// such a key, or if `lacuna quantize` or `lacuna pack` wrote it. Throws InputError for an unsupported method
/// or setting. Every known key counts as read.
std::optional<PublishedQuantization> read_published_quantization(const JsonObject& config);

/// Same for a checkpoint folder. If config.json has no settings, reads hf_quant_config.json of ModelOpt or
/// quantize_config.json of GPTQ. Empty without these files.
std::optional<PublishedQuantization> published_quantization(const std::filesystem::path& folder);

}  // namespace lacuna
