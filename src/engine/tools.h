// Functions that an answer may call, and the text form of functions, calls and results in a conversation.
//
// Answers use the call syntax of the chat template (OpenedModel::tool_call_form). For a template without one,
// Qwen's texts are used: functions in the system turn, calls in the assistant's, results in the user's.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/token.h"
#include "constraint/constraint.h"
#include "lacuna/tools.h"

namespace lacuna {

/// A function as a request describes it.
struct ToolFunction {
  CallableFunction function;
  std::string definition;  ///< JSON text that the prompt shows
};

enum class ToolChoice : uint8_t {
  kNone,      ///< no calls: the functions are left out
  kAuto,      ///< text, calls, or text and then calls
  kRequired,  ///< one call or more
  kNamed,     ///< one call of Tools::chosen
};

/// Tools of a request.
struct Tools {
  std::vector<ToolFunction> functions;
  ToolChoice choice = ToolChoice::kAuto;
  std::string chosen;  ///< kNamed: the function's name
  bool is_parallel = true;
};

/// Adds a function of a request, after a check that its name is valid and new. Its schema is checked when the
/// constraint is compiled.
///   definition  JSON that the prompt shows
///   place       position in the request, for errors: "tools.0.function"
void add_function(Tools& tools, CallableFunction function, const nlohmann::ordered_json& definition,
                  std::string_view place);
/// Sets kNamed and the chosen function. Throws InputError if none has this name.
void choose_function(std::string name, std::string_view place, Tools& tools);

/// The constraint on answers. Requires a choice other than kNone, and that the chosen function exists.
///   answer  constraint on answers without calls, if these are allowed; not one of tool calls
ToolCallConstraint tool_constraint(const Tools& tools, const std::optional<Constraint>& answer = {});

/// Whether an answer has to call a function.
bool requires_call(const Tools& tools);

/// The functions in the format of Conversation::tools; null without functions or with kNone.
nlohmann::ordered_json definitions_of(const Tools& tools);

/// The text that describes functions if the template does not.
///   definitions  JSON texts
std::string description_of_tools(std::span<const std::string> definitions);

/// The assistant's turn: `content`, which may be empty, followed by the calls as text.
std::string with_tool_calls(std::string_view content, std::span<const ToolCall> calls);

/// Formats the result of a function as a part of a user's turn; parts are separated by newlines.
std::string tool_response(std::string_view result);

/// Key for the ids of a request's calls: equal for equal requests, different for each turn.
uint64_t tool_call_key(uint64_t seed, std::span<const TokenId> prompt);
/// Formats an id: "call_" and 24 hexadecimal digits.
std::string tool_call_id(uint64_t key, size_t index);

}  // namespace lacuna
