// The part of config.json about weights that other programs quantized: the method, and what their tensors
// leave open.
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

/// The method as config.json spells it, and "mlx", which config.json does not spell.
std::string_view name_of(QuantMethod method);

/// Bits of a code and inputs that share a scale; 0 where config.json says nothing.
struct CodeSizes {
  int64_t bits = 0;
  int64_t group = 0;  ///< -1: all inputs

  bool operator==(const CodeSizes&) const = default;
};

/// Shapes and types of the tensors decide how each matrix is stored. This is what they leave open, and what
/// they must not contradict.
struct PublishedQuantization {
  QuantMethod method = QuantMethod::kMlx;
  CodeSizes sizes;
  std::map<std::string, CodeSizes, std::less<>> sizes_of;  ///< of modules with sizes of their own
  std::vector<std::string> dense;                          ///< modules that stay dense: names, or patterns
  std::array<int64_t, 2> block = {128, 128};               ///< outputs and inputs of a block of FP8 weights
  bool stores_zeros_less_one = false;                      ///< GPTQ, version 1

  /// Sizes that config.json gives a module.
  const CodeSizes& sizes_for(std::string_view module) const;
};

/// Reads "quantization_config", "compression_config" or, of MLX, "quantization" of a config.json; empty if it
/// has none, or the one that `lacuna quantize` or `lacuna pack` wrote. Throws InputError for a method or a
/// setting that is not supported. Every known key counts as read.
std::optional<PublishedQuantization> read_published_quantization(const JsonObject& config);

/// The same for the files of a checkpoint folder; hf_quant_config.json of ModelOpt and quantize_config.json
/// of GPTQ count where config.json says nothing. Empty without these files.
std::optional<PublishedQuantization> published_quantization(const std::filesystem::path& folder);

}  // namespace lacuna
