// Converts the load options of the public API (lacuna/session.h) to the engine's types.
#pragma once

#include <memory>
#include <string>

#include "engine/inference_session.h"
#include "lacuna/session.h"

namespace lacuna {

/// Opens the model and its guide without their weights. Throws InputError, also for options out of range.
std::shared_ptr<OpenedModel> open_model(const std::string& model, const LoadOptions& options);

/// The options of InferenceSession::load(). Throws SettingError if formats contradict each other.
SessionOptions session_options(const OpenedModel& opened, const LoadOptions& options);

/// Applies a saved preset: returns the settings and writes its formats into `options` (engine/preset_use.h).
/// Throws SettingError, also if the given formats differ from those of the preset.
GenerationOptions resolve_run(const OpenedModel& opened, LoadOptions& options,
                              const GenerationOptions& generation);

/// Loads the weights of an opened model. Throws SettingError for `ignore_memory` if memory does not suffice.
std::unique_ptr<InferenceSession> load_session(std::shared_ptr<const OpenedModel> opened,
                                               const LoadOptions& options, const SchedulerLimits& limits);

}  // namespace lacuna
