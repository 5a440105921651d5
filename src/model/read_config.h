// The config of a checkpoint.
#pragma once

#include <filesystem>
#include <string>

#include "model/config.h"

namespace lacuna {

/// Reads config.json of a checkpoint folder and, if present, generation_config.json and the tokenizer's files
/// as far as they name special tokens. Throws InputError naming file, key, value and what was expected for
/// anything that the forward pass would not compute as published, keys that are not known included. `folder`
/// may be a GGUF file (see gguf_model.h).
ModelConfig read_config(const std::filesystem::path& folder, const ConfigChoices& choices = {});

/// One sentence about ModelConfig::unknown_keys for whoever opens the model; empty if there are none.
std::string warning_of(const ModelConfig& config, const std::filesystem::path& folder);

}  // namespace lacuna
