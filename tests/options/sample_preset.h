// A saved preset for tests, as `lacuna tune --save` writes it.
#pragma once

#include "lacuna/version.h"
#include "options/saved_preset.h"

namespace lacuna {

/// Its certificate is of this version. Tests set the model and what else they are about.
inline SavedPreset sample_preset() {
  SavedPreset preset;
  preset.name = "quick";
  preset.settings = {{"unmask", "threshold=0.9"}};
  preset.tested_with = {{"gen-length", "32"}};
  preset.formats = preset.baseline_formats = {"bf16", "as stored", "as stored", "bf16", "auto"};
  preset.certificate = {"changed-answer",   0.02,          0.9,    0.01, 400, 0,   "task arithmetic",
                        "fedcba9876543210", 8e11,          2.5e10, 0.1,  0.1, 0.1, 0.1,
                        "2026-01-31",       LACUNA_VERSION};
  return preset;
}

}  // namespace lacuna
