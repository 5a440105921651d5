// Opens the model that --model names, for every subcommand that computes.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "backend/backend.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/device.h"
#include "base/threads.h"
#include "engine/inference_session.h"
#include "engine/weight_options.h"
#include "kernels/table.h"
#include "loaded_model.h"
#include "model/model.h"
#include "model_flags.h"
#include "options/options.h"
#include "tokenizer/chat_template.h"

namespace lacuna {

/// Finds the model of --model, with --rope-scale and --lora. Warns on standard error about unknown but
/// accepted keys of config.json.
ModelSource find_model(const ModelFlags& flags);
/// find_model() without the warning.
ModelSource find_model_quietly(const ModelFlags& flags);

/// Creates a pool of --threads threads, bound to cores with --pin.
std::unique_ptr<ThreadPool> make_threads(int threads, bool pin);

/// Warns on standard error, if it is a terminal, when other programs use cores that `threads` (the value of
/// --threads) need.
void report_busy_cores(int threads);

/// Loads with a progress bar on standard error, if that is a terminal. Before it reads weights, throws
/// InputError if a download is incomplete or memory does not suffice (unless --ignore-memory).
LoadedModel load_model(const ModelFlags& flags, const ModelSource& source);
/// Version of the weights, reported with answers (InferenceSession::Parts).
std::string weights_version(const ModelFlags& flags, const ModelSource& source);

/// Opens the model of --guide; null without the flag. `main` must outlive it.
std::unique_ptr<GuideSource> find_guide(const GuidedModelFlags& flags, const TextModel& main);
/// Opens the model of --judge, which scores answers of `main`. Null if `model` is empty.
///   reads_text  whether a judge with another vocabulary is accepted; it reads the text
std::unique_ptr<GuideSource> find_judge(const std::string& model, const ModelFlags& flags,
                                        const TextModel& main, bool reads_text);
/// Loads a guide's or judge's weights; null without one.
std::shared_ptr<const BackendModel> load_guide(const ModelFlags& flags, const GuideSource* guide,
                                               const LoadedModel& main);

/// The chat template that a command renders prompts with.
struct TemplateFlags {
  std::string chat_template = {};  ///< --chat-template; empty: the checkpoint's
  std::string keywords = {};       ///< --chat-template-kwargs; empty: none
  bool raw = false;                ///< none, unless --chat-template names one
};

/// --chat-template, --chat-template-kwargs.
void add_template_flags(CLI::App& command, TemplateFlags& flags, const char* group);
/// The template of --chat-template: one of the checkpoint's, a built-in one or a file. Throws InputError.
ChatTemplate choose_chat_template(const std::filesystem::path& folder, const TemplateFlags& flags);
/// Warns on standard error that prompts are used as they are because the checkpoint's template is missing or
/// unusable. Call after all errors were reported.
void warn_without_template(const OpenedModel& opened, const TemplateFlags& flags);

/// Opens the model and its guide without their weights.
std::shared_ptr<const OpenedModel> open_model(const GuidedModelFlags& flags, const TemplateFlags& chosen);

/// Throws InputError if the model was made for decisions only.
void expect_writer(const OpenedModel& opened);

/// Loads the model and its guide.
std::unique_ptr<InferenceSession> load_session(const ModelFlags& flags,
                                               std::shared_ptr<const OpenedModel> opened,
                                               const SchedulerLimits& limits);

/// Applies a saved preset: returns the options with its settings and writes its formats into the flags
/// (engine/preset_use.h). Call before the flags are used. Warns on stderr.
///   guide  null: none
GenerationOptions resolve_run(ModelFlags& flags, const ModelSource& source, const GuideSource* guide,
                              const GenerationOptions& options);
GenerationOptions resolve_run(ModelFlags& flags, const OpenedModel& opened, const GenerationOptions& options);

/// Makes a request from the options of the flags.
GenerateRequest make_generate_request(const OpenedModel& opened, const GenerationOptions& options,
                                      Prompt prompt);

}  // namespace lacuna
