// decisions.json: temperatures that `lacuna eval --task decisions --fit` fitted for a model:
//   {"temperatures": {"predicate": 1.4, "choice": 1.1, "score": 0.9}, ...}
// "writes_text": false marks a model that only decides. Other keys are for people to read.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "engine/decision.h"

namespace lacuna {

inline constexpr double kMinTemperature = 0.01;
inline constexpr double kMaxTemperature = 100;

/// decisions.json in a model's folder; FILE.gguf.decisions.json next to a GGUF file.
std::filesystem::path decision_sidecar(const std::filesystem::path& model);

/// Reads the model's decisions.json. A missing temperature is 1, a missing "writes_text" is true. Throws
/// InputError if the file is invalid.
///   model  folder or .gguf file; empty: a random model, which has no file
DecisionTemperatures load_decision_temperatures(const std::filesystem::path& model);

/// Writes the file. Throws InputError if it cannot be written.
///   record  an object whose keys are added to the file
void save_decision_temperatures(const std::filesystem::path& model, const DecisionTemperatures& temperatures,
                                const nlohmann::ordered_json& record);

}  // namespace lacuna
