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

/// --model and what belongs to it, --guide, --system, --chat-template, --chat-template-kwargs, --raw.
void add_chat_flags(CLI::App& command, ChatFlags& flags);

/// The model that the flags name, with the template that --chat-template and --raw ask for; says where there
/// is none. Throws InputError if --system has no place in it.
std::shared_ptr<const OpenedModel> open_chat_model(const ChatFlags& flags);

/// Reads questions from standard input and answers them until it ends.
void chat(ChatFlags flags);

}  // namespace lacuna
