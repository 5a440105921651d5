// Reports members of messages, and variables, that the chat template does not use.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "server/dialect.h"
#include "tokenizer/chat_template.h"

namespace lacuna {

/// Calls note_object_fields(), treating a message's member as used if the prompt changes without it (only the
/// first few are tried, others are assumed to be used). Also reports variables that the template does not
/// read: enable_thinking, reasoning_effort, members of chat_template_kwargs. FieldError for documents that it
/// does not show.
void note_members(const Dialect& dialect, const nlohmann::ordered_json& body,
                  const ChatTemplate& chat_template, GenerationRequest& request);

}  // namespace lacuna
