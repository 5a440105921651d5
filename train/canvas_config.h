// Config files of DiffusionGemma.
#pragma once

#include <nlohmann/json.hpp>

#include "train/chat_form.h"
#include "train/model.h"

namespace lacuna::train {

/// config.json, with the keys of the published checkpoint but those of images.
nlohmann::ordered_json canvas_config(const ModelShape& shape, const SpecialIds& ids);

/// generation_config.json: settings of the decoder as published, but half of the steps, as canvases are
/// shorter, and answers of two canvases.
nlohmann::ordered_json canvas_generation_config(const ModelShape& shape, const SpecialIds& ids);

}  // namespace lacuna::train
