// Converts the tools of the public interface to the engine's.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "constraint/tool_calls.h"
#include "engine/tools.h"
#include "lacuna/session.h"

namespace lacuna {

/// Tools of a request; empty without tools or if tool_choice forbids calls. Throws InputError, which names
/// the function.
std::optional<Tools> tools_of(const Request& request);

/// Rewrites the calls in an answer to kTaggedCalls, the format that read_tool_answer() reads.
///   form  the model's format of calls
std::string with_tagged_calls(std::string text, const ToolCallForm& form);

// Conversions from and to JSON; `place` is the argument's name in errors.

/// Reads "tools", "tool_choice" or "parallel_tool_calls" in the form of OpenAI's chats. A tool may also be
/// the object of its "function" alone, and the choice a function's name. Returns false for another key.
bool read_tool_key(const std::string& place, const std::string& key, const nlohmann::ordered_json& value,
                   Request& request);
/// A conversation: {"role", "content"}, an assistant's with "tool_calls", a "tool"'s with "tool_call_id".
std::vector<Message> messages_of(const std::string& place, const nlohmann::ordered_json& value);
/// {"role": "assistant", "content", "tool_calls"}, a message for a later request.
nlohmann::ordered_json to_json(const ToolAnswer& answer);

}  // namespace lacuna
