// What a chat request says of tools in OpenAI's format: functions, choices, earlier calls and their results.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tools.h"

namespace lacuna {

struct GenerationRequest;

inline constexpr size_t kMostCalls = 128;  ///< of one message
inline constexpr size_t kMostCallIdBytes = 256;

/// Adds a function that a request describes: checks its name and that it is new. Schemas are checked when the
/// constraint is compiled.
///   definition  JSON that the prompt shows
///   place       of the function in the request, for errors: "tools.0.function"
void add_function(Tools& tools, CallableFunction function, const nlohmann::ordered_json& definition,
                  std::string_view place);

/// Whether a body has a key that parse_tools() reads.
bool has_tools(const nlohmann::json& body);

/// tools, tool_choice and parallel_tool_calls of a body's JSON text, whose order of keys matters. None
/// without tools. InputError names the field: "tools.0.function.name is ...".
std::optional<Tools> parse_tools(std::string_view body);

/// Holds the answer of a chat to calls of its tools, and describes them in its prompt. With kNone nothing
/// changes.
///   default_system  as describe_tools() takes it
void use_tools(Tools tools, std::string_view default_system, GenerationRequest& request);

/// Refuses `functions` and `function_call`, which tools replace.
void refuse_legacy_functions(const nlohmann::json& body);

/// The calls and results of a conversation in the form that a prompt has for them. InputErrors begin with
/// `place`, the message's: "messages.2".
class ToolHistory {
 public:
  /// The content of an assistant's message, followed by its tool_calls.
  std::string with_calls(const nlohmann::json& message, std::string_view place, const std::string& content);
  /// Adds a message of the role "tool". Results that follow each other share a user's turn.
  void add_result(const nlohmann::json& message, std::string_view place, const std::string& content,
                  std::vector<Message>& messages);

 private:
  std::set<std::string, std::less<>> ids_;  // of the calls so far
  size_t behind_results_ = 0;               // messages up to the last result; 0: there is none
};

}  // namespace lacuna
