// The file that keeps what `lacuna eval --task decisions --fit` found for a model:
//   {"temperatures": {"predicate": 1.4, "choice": 1.1, "score": 0.9}, ...}
// and whether the model does anything but decide: "writes_text": false. Other keys are a record for people.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "engine/decision.h"

namespace lacuna {

inline constexpr double kMinTemperature = 0.01;
inline constexpr double kMaxTemperature = 100;

/// decisions.json in a model's folder; FILE.gguf.decisions.json next to a GGUF file.
std::filesystem::path decision_sidecar(const std::filesystem::path& model);

/// Reads the model's decisions.json. Temperatures default to 1 if the file or an entry is missing,
/// and "writes_text" to true.
/// Throws InputError if the file is invalid.
///   model  folder or .gguf file; empty: a random model, which has no file
DecisionTemperatures load_decision_temperatures(const std::filesystem::path& model);

/// Writes the file. Throws InputError if it cannot be written.
///   record  an object, whose keys are added
void save_decision_temperatures(const std::filesystem::path& model, const DecisionTemperatures& temperatures,
                                const nlohmann::ordered_json& record);

}  // namespace lacuna
