// Functions that an answer may call: what the public interface says of them, as the engine takes it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "constraint/tool_calls.h"
#include "engine/tools.h"
#include "lacuna/session.h"

namespace lacuna {

/// Tools of a request; empty without tools, or if none may be called. Throws InputError, which names the
/// function.
std::optional<Tools> tools_of(const Request& request);

/// An answer with its calls in the form that read_tool_answer() reads, kTaggedCalls.
///   form  in which the model wrote them
std::string with_tagged_calls(std::string text, const ToolCallForm& form);

// The same as JSON; `place` is what errors name: an argument.

/// "tools", "tool_choice" and "parallel_tool_calls", in the form of OpenAI's chats; a tool may also be what
/// "function" has alone, and a choice a function's name. False for another key.
bool read_tool_key(const std::string& place, const std::string& key, const nlohmann::ordered_json& value,
                   Request& request);
/// A conversation: {"role", "content"}, an assistant's with "tool_calls", a "tool"'s with "tool_call_id".
std::vector<Message> messages_of(const std::string& place, const nlohmann::ordered_json& value);
/// {"role": "assistant", "content", "tool_calls"}, as a request takes it.
nlohmann::ordered_json to_json(const ToolAnswer& answer);

}  // namespace lacuna
