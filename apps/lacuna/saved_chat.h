// Chats in files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/chat_template.h"

namespace lacuna {

/// A chat between two answers.
struct SavedChat {
  std::string model;              ///< the value of --model
  std::string system;             ///< empty: none
  std::vector<Message> messages;  ///< "user" and "assistant" in turn; the last one is the assistant's
};

/// Formats a chat: {"format": "lacuna-chat", "version": 1, "model", "messages": [{"role", "content"}, ...]},
/// the system turn first, if any.
std::string to_text(const SavedChat& chat);

/// Parses an untrusted file. Throws InputError that begins with `file`.
SavedChat parse_chat(std::string_view text, const std::string& file);

/// Throws InputError if the file cannot be written, or exists and is not a saved chat.
void save_chat(const SavedChat& chat, const std::string& file);
SavedChat load_chat(const std::string& file);

}  // namespace lacuna
