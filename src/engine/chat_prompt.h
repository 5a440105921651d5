// Prompts of conversations with tools: what the chat template does not show is written into the turns' texts,
// in the form of the templates of Qwen2.5 and Qwen3.
#pragma once

#include <vector>

#include "tokenizer/chat_template.h"
#include "tokenizer/conversation.h"
#include "tokenizer/tokenizer.h"

namespace lacuna {

/// The conversation without what its template does not show: functions are described in the first system
/// message, or in a new one; calls become text of the assistant, results text of the user.
Conversation as_template_shows(const ChatTemplate& chat_template, Conversation conversation);

/// render_prompt() of that.
RenderedPrompt chat_prompt(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                           const Conversation& conversation);

/// Plain turns: everything as text, whatever the template shows.
std::vector<Message> as_plain_turns(Conversation conversation);

}  // namespace lacuna
