// Flags that `lacuna chat` shares with `lacuna run`, and the chat itself.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>

#include "decode/options.h"
#include "live_view.h"
#include "loading.h"
#include "tokenizer/chat_template.h"

namespace lacuna {

struct ChatFlags : GuidedModelFlags {
  std::string system;
  std::string chat_template;
  bool raw = false;
  GenerationOptions generation;
  LiveFlags live;
};

/// --model and what belongs to it, --guide, --system, --chat-template, --raw.
void add_chat_flags(CLI::App& command, ChatFlags& flags);

/// The template that --chat-template and --raw ask for, else the checkpoint's. InputError where --system has
/// no place in it.
ChatTemplate choose_template(const ChatFlags& flags, const std::filesystem::path& folder, bool has_tokenizer);

/// Reads questions from standard input and answers them until it ends.
void chat(const ChatFlags& flags);

}  // namespace lacuna
