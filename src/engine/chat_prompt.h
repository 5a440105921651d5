// Prompts of conversations with tools. Parts that the chat template cannot render are written into the turns'
// texts, in the format of Qwen2.5 and Qwen3.
#pragma once

#include <vector>

#include "tokenizer/chat_template.h"
#include "tokenizer/conversation.h"
#include "tokenizer/tokenizer.h"

namespace lacuna {

/// Rewrites parts that the template cannot render: functions are described in the first system message, or in
/// a new one; calls become assistant text, results user text.
Conversation as_template_shows(const ChatTemplate& chat_template, Conversation conversation);

/// Renders as_template_shows(chat_template, conversation).
RenderedPrompt chat_prompt(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                           const Conversation& conversation);

/// Converts all tool parts to text, for any template.
std::vector<Message> as_plain_turns(Conversation conversation);

}  // namespace lacuna
