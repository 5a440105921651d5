// Tools of a request: functions, choices, earlier calls and their results, in the forms of the APIs
// that have them.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tool_history.h"
#include "engine/tools.h"

namespace lacuna {

struct GenerationRequest;

/// How an API describes functions and the choice among them.
enum class ToolFormat : uint8_t {
  kNone,       ///< it has no tools
  kChat,       ///< OpenAI's chats: {"type": "function", "function": {"name", "parameters", ...}}
  kResponses,  ///< OpenAI's Responses: {"type": "function", "name", "parameters", ...}
  kAnthropic,  ///< {"name", "input_schema", ...}; the choice is an object with a type
  kOllama,     ///< as kChat, without a tool choice
};

/// tools, tool_choice and parallel_tool_calls of a body. None without tools. Throws InputError, which names
/// the field: "tools.0.function.name is ...".
///   format    not kNone
///   left_out  gets "tools.TYPE" of tools that are no functions, such as a service's own searches; may be
///   null
std::optional<Tools> parse_tools(const nlohmann::ordered_json& body, ToolFormat format,
                                 std::vector<std::string>* left_out = nullptr);

/// Holds the answer of a chat to calls of its tools, or to the request's own constraint where none is
/// required, and gives the tools to its prompt. With kNone nothing changes.
void use_tools(Tools tools, GenerationRequest& request);

/// Refuses `functions` and `function_call`, which tools replace.
void refuse_legacy_functions(const nlohmann::ordered_json& body);

/// Calls and results in the messages of OpenAI's chats. InputErrors begin with `place`, the message's:
/// "messages.2".
class ChatHistory : private ToolHistory {
 public:
  /// Adds an assistant's tool_calls. Calls may lack ids, and have arguments as an object.
  void add_calls_of(const nlohmann::ordered_json& message, std::string_view place,
                    nlohmann::ordered_json& added);
  /// Adds a message of the role "tool". Without tool_call_id it is the result of the first call that has
  /// none.
  void add_message(const nlohmann::ordered_json& message, std::string_view place,
                   const nlohmann::ordered_json& content, Conversation& conversation);
};

}  // namespace lacuna
