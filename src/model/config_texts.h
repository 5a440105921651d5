// Parses the texts of config.json and the files next to it into a ModelConfig.
#pragma once

#include <filesystem>

#include "model/config.h"

namespace lacuna {

/// Same as read_config(), from memory. `folder` only serves messages.
ModelConfig read_config_texts(const ConfigTexts& texts, const std::filesystem::path& folder,
                              const ConfigChoices& choices = {});

}  // namespace lacuna
