// Members of a request's objects, and variables, by what the chat template does with them.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "server/dialect.h"
#include "tokenizer/chat_template.h"

namespace lacuna {

/// note_object_fields(), where members of a chat's messages are not named if the prompt is another one
/// without them (a few are tried, of others it is assumed). Also names variables that the template does not
/// read: enable_thinking, reasoning_effort, members of chat_template_kwargs. FieldError for documents that it
/// does not show.
void note_members(const Dialect& dialect, const nlohmann::ordered_json& body,
                  const ChatTemplate& chat_template, GenerationRequest& request);

}  // namespace lacuna
