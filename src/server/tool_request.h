// Parses the tools of a request: functions, tool choice, earlier calls and their results, in each API's
// format.
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
  kNone,       ///< the API has no tools
  kChat,       ///< OpenAI's chats: {"type": "function", "function": {"name", "parameters", ...}}
  kResponses,  ///< OpenAI's Responses: {"type": "function", "name", "parameters", ...}
  kAnthropic,  ///< {"name", "input_schema", ...}; the choice is an object with a type
  kOllama,     ///< as kChat, without a tool choice
};

/// Parses tools, tool_choice and parallel_tool_calls of a body; empty without tools. Throws InputError, which
/// names the field: "tools.0.function.name is ...".
///   format    not kNone
///   left_out  gets "tools.TYPE" for tools other than functions, such as a service's own search; may be null
std::optional<Tools> parse_tools(const nlohmann::ordered_json& body, ToolFormat format,
                                 std::vector<std::string>* left_out = nullptr);

/// Constrains the answer of a chat to calls of its tools or, if no call is required, to the request's own
/// constraint, and adds the tools to the prompt. Does nothing for ToolChoice::kNone.
void use_tools(Tools tools, GenerationRequest& request);

/// Throws if the body has `functions` or `function_call`, which tools replace.
void refuse_legacy_functions(const nlohmann::ordered_json& body);

/// Reads calls and results in the messages of OpenAI's chats. InputErrors begin with the message's `place`:
/// "messages.2".
class ChatHistory : private ToolHistory {
 public:
  /// Adds an assistant's tool_calls. Calls may lack ids, and have arguments as an object.
  void add_calls_of(const nlohmann::ordered_json& message, std::string_view place,
                    nlohmann::ordered_json& added);
  /// Adds a message of the role "tool". Without tool_call_id it is the result of the first call that has no
  /// result yet.
  void add_message(const nlohmann::ordered_json& message, std::string_view place,
                   const nlohmann::ordered_json& content, Conversation& conversation);
};

}  // namespace lacuna
