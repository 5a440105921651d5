// Opens the model that --model names, for every subcommand that computes.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

/// Finds the model of --model, with --rope-scale and --lora. Warns on standard error about unknown keys of
/// config.json that are not refused.
ModelSource find_model(const ModelFlags& flags);
/// The same without the warning.
ModelSource find_model_quietly(const ModelFlags& flags);

/// The number of threads that --threads gives, bound to cores with --pin.
std::unique_ptr<ThreadPool> make_threads(int threads, bool pin);

/// Warns on standard error, if it is a terminal, when other programs use cores that `threads` (the value of
/// --threads) need.
void report_busy_cores(int threads);

/// Loads with a progress bar on standard error, if that is a terminal. Throws InputError before it reads
/// weights where a download is not complete or memory does not suffice (unless --ignore-memory).
LoadedModel load_model(const ModelFlags& flags, const ModelSource& source);
/// Version of the weights, which answers report (InferenceSession::Parts).
std::string weights_version(const ModelFlags& flags, const ModelSource& source);

/// Null without --guide. `main` must outlive it.
std::unique_ptr<GuideSource> find_guide(const GuidedModelFlags& flags, const TextModel& main);
/// --judge: reads what `main` wrote. Null where `model` is empty.
///   reads_text  whether a judge with another vocabulary is accepted, which then reads the text
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
/// --chat-template as the name of one of the checkpoint's templates, of a built-in form or of a file. Throws
/// InputError.
ChatTemplate choose_chat_template(const std::filesystem::path& folder, const TemplateFlags& flags);
/// Says on standard error that prompts are used as they are, because the checkpoint has no template, or that
/// its template cannot be used. Call after all errors were reported.
void warn_without_template(const OpenedModel& opened, const TemplateFlags& flags);

/// The model that the flags name and its guide, before their weights are read.
std::shared_ptr<const OpenedModel> open_model(const GuidedModelFlags& flags, const TemplateFlags& chosen);

/// Throws InputError where the model was made for decisions alone.
void expect_writer(const OpenedModel& opened);

/// Loads the model and its guide.
std::unique_ptr<InferenceSession> load_session(const ModelFlags& flags,
                                               std::shared_ptr<const OpenedModel> opened,
                                               const SchedulerLimits& limits);

/// Applies a saved preset: returns the options with its settings and writes its formats into the flags
/// (engine/preset_use.h): call it before they are read. Warns on stderr.
///   guide  null: none
GenerationOptions resolve_run(ModelFlags& flags, const ModelSource& source, const GuideSource* guide,
                              const GenerationOptions& options);
GenerationOptions resolve_run(ModelFlags& flags, const OpenedModel& opened, const GenerationOptions& options);

/// Request to a session, from the options of the flags.
GenerateRequest make_generate_request(const OpenedModel& opened, const GenerationOptions& options,
                                      Prompt prompt);

}  // namespace lacuna
