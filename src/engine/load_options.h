// How the public interfaces say that a model is to be loaded (lacuna/session.h), as the engine's own values.
#pragma once

#include <memory>
#include <string>

#include "engine/inference_session.h"
#include "lacuna/session.h"

namespace lacuna {

/// Finds the model and its guide, without their weights. InputError, also for options out of their ranges.
std::shared_ptr<OpenedModel> open_model(const std::string& model, const LoadOptions& options);

/// The options of InferenceSession::load(). Throws SettingError if formats contradict each other.
SessionOptions session_options(const OpenedModel& opened, const LoadOptions& options);

/// The settings with what a saved preset sets, whose formats `options` get (engine/preset_use.h). Throws
/// SettingError, also where formats were given that the preset was not tuned with.
GenerationOptions resolve_run(const OpenedModel& opened, LoadOptions& options,
                              const GenerationOptions& generation);

/// Loads what open_model() found. SettingError, of `ignore_memory`, where the memory does not suffice.
std::unique_ptr<InferenceSession> load_session(std::shared_ptr<const OpenedModel> opened,
                                               const LoadOptions& options, const SchedulerLimits& limits);

}  // namespace lacuna
