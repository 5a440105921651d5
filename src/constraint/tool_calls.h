// Calls of functions in the text form that Qwen's chat templates teach, one after the other:
//
//   <tool_call>
//   {"name": "add", "arguments": {"a": 1, "b": 2}}
//   </tool_call>
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "constraint/expression.h"

namespace lacuna {

/// The parts of a call: begin, head, name, arguments_key, arguments, tail, end; separator between two calls.
struct ToolCallForm {
  static constexpr std::string_view begin = "<tool_call>", end = "</tool_call>";
  static constexpr std::string_view head = "\n{\"name\": \"", arguments_key = "\", \"arguments\": ";
  static constexpr std::string_view tail = "}\n", separator = "\n";
};

/// A function that an answer may call.
struct CallableFunction {
  std::string name;        ///< [A-Za-z0-9_-], 1 to kMaxFunctionName
  std::string parameters;  ///< JSON text of the arguments' schema, an object's; empty: the arguments are {}
  bool strict = false;     ///< JsonSchemaOptions::strict
  std::string place = "parameters";  ///< begins messages about the schema
  bool operator==(const CallableFunction&) const = default;
};

/// Calls of these functions with arguments that are valid against their schemas. Unless a call is required,
/// the answer may also be any text without ToolCallForm::begin, alone or before the calls.
struct ToolCallConstraint {
  std::vector<CallableFunction> functions;
  bool is_required = false;
  bool is_parallel = true;  ///< any number of calls; false: at most one
  /// Begin and end are the tokens TokenTable::specials 0 and 1; false: they are written as text.
  bool has_tag_tokens = false;
  bool operator==(const ToolCallConstraint&) const = default;
};

inline constexpr size_t kMaxFunctions = 128;
inline constexpr size_t kMaxFunctionName = 64;
/// JsonSchemaOptions::shared_work of all functions' schemas together: about a second.
inline constexpr int64_t kToolSchemaWork = 240'000'000;

bool is_function_name(std::string_view name);

/// Throws InputError where the functions are none or too many, two share a name, a name has other
/// characters, or a schema is not that of an object or not supported; AutomatonTooLarge.
Expression tool_call_expression(const ToolCallConstraint& constraint);

/// Lets functions whose schemas are not supported, or too large, have any arguments, unless they are strict.
/// Returns the places of their schemas. Throws where tool_call_expression() throws for another reason.
std::vector<std::string> relax_schemas(std::vector<CallableFunction>& functions);

/// Texts of whole characters in which `tag` does not occur. The tag's first byte is ASCII and occurs in it
/// once.
Expression text_without(std::string_view tag);

}  // namespace lacuna
