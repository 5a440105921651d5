// Config files of DiffusionGemma.
#pragma once

#include <nlohmann/json.hpp>

#include "train/chat_form.h"
#include "train/model.h"

namespace lacuna::train {

/// config.json, with the published checkpoint's keys, except those for images.
nlohmann::ordered_json canvas_config(const ModelShape& shape, const SpecialIds& ids);

/// generation_config.json: the published decoder settings, except half of the steps, because canvases are
/// shorter, and answers of two canvases.
nlohmann::ordered_json canvas_generation_config(const ModelShape& shape, const SpecialIds& ids);

}  // namespace lacuna::train
