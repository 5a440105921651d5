// Functions that an answer may call, and the text of functions, calls and results in a conversation.
//
// Answers call functions in the form that the chat template shows (OpenedModel::tool_call_form). A template
// that shows none is given the texts of Qwen's, which say what the model has to know: the functions stand in
// the system turn, calls in the assistant's, results in the user's.
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

/// Adds a function that a request describes: checks its name and that it is new. Schemas are checked when the
/// constraint is compiled.
///   definition  JSON that the prompt shows
///   place       of the function in the request, for errors: "tools.0.function"
void add_function(Tools& tools, CallableFunction function, const nlohmann::ordered_json& definition,
                  std::string_view place);
/// Chooses one of the functions: kNamed. Throws InputError if none has this name.
void choose_function(std::string name, std::string_view place, Tools& tools);

/// The answers that the request allows; with kNone there is no constraint to ask for. expects() that the
/// chosen function exists.
///   answer  constraint on answers without calls, where there may be some; none of tool calls
ToolCallConstraint tool_constraint(const Tools& tools, const std::optional<Constraint>& answer = {});

/// Whether an answer has to call a function.
bool requires_call(const Tools& tools);

/// The functions as Conversation::tools has them; null without functions or with kNone.
nlohmann::ordered_json definitions_of(const Tools& tools);

/// The text that describes functions where a template does not.
///   definitions  JSON texts
std::string description_of_tools(std::span<const std::string> definitions);

/// The content of an assistant's turn that made these calls, after its text, which may be empty.
std::string with_tool_calls(std::string_view content, std::span<const ToolCall> calls);

/// Formats the result of a function as a part of a user's turn; parts are separated by newlines.
std::string tool_response(std::string_view result);

/// A number for the ids of a request's calls: the same for the same request, another one for each turn of a
/// conversation.
uint64_t tool_call_key(uint64_t seed, std::span<const TokenId> prompt);
/// "call_" and 24 hexadecimal digits.
std::string tool_call_id(uint64_t key, size_t index);

}  // namespace lacuna
