// Flags that `lacuna chat` shares with `lacuna run`, and the chat itself.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "live_view.h"
#include "loading.h"
#include "options/options.h"

namespace lacuna {

struct ChatFlags : GuidedModelFlags {
  std::string system;
  TemplateFlags prompt_template;
  GenerationOptions generation;
  LiveFlags live;
};

/// Adds --model and the other model flags, --guide, --system, --chat-template, --chat-template-kwargs, --raw.
void add_chat_flags(CLI::App& command, ChatFlags& flags);

/// Opens the model of the flags with the template of --chat-template and --raw; warns if it has none. Throws
/// InputError if the template has no place for --system.
std::shared_ptr<const OpenedModel> open_chat_model(const ChatFlags& flags);

/// Answers questions from standard input until its end.
void chat(ChatFlags flags);

}  // namespace lacuna
