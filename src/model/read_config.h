// The config of a checkpoint.
#pragma once

#include <filesystem>
#include <string>

#include "model/config.h"

namespace lacuna {

/// Reads config.json of a checkpoint folder and, if present, generation_config.json and the special tokens of
/// the tokenizer's files. Throws InputError naming file, key, value and the expected values for unknown keys
/// and anything else that the forward pass would not compute as published. `folder` may be a GGUF file (see
/// gguf_model.h).
ModelConfig read_config(const std::filesystem::path& folder, const ConfigChoices& choices = {});

/// A warning for users about ModelConfig::unknown_keys; empty if there are none.
std::string warning_of(const ModelConfig& config, const std::filesystem::path& folder);

}  // namespace lacuna
