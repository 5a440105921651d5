// Calls of functions as the text of an answer, in the forms that chat templates teach. Most teach that of
// Qwen's, and models whose template shows no form are taught it in words:
//
//   <tool_call>
//   {"name": "add", "arguments": {"a": 1, "b": 2}}
//   </tool_call>
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "constraint/answer_form.h"
#include "constraint/expression.h"

namespace lacuna {

/// The parts of a call: begin, head, name, arguments_key, arguments, tail, end; separator between two calls.
struct ToolCallForm {
  std::string_view begin, head, arguments_key, tail, end, separator;
  /// Surrounds texts within arguments, which then are written {key:1,other:{key:true}}; empty: they are JSON.
  std::string_view quote = {};
  /// A call is a whole answer, without text and other calls, and `begin` may be left out.
  bool is_whole_answer = false;
};

/// The form of Qwen and LLaDA2.
inline constexpr ToolCallForm kTaggedCalls{.begin = "<tool_call>",
                                           .head = "\n{\"name\": \"",
                                           .arguments_key = "\", \"arguments\": ",
                                           .tail = "}\n",
                                           .end = "</tool_call>",
                                           .separator = "\n"};
/// The form of Gemma 4: <|tool_call>call:add{a:1,b:<|"|>two<|"|>}<tool_call|>
inline constexpr ToolCallForm kQuotedCalls{.begin = "<|tool_call>",
                                           .head = "call:",
                                           .arguments_key = "",
                                           .tail = "",
                                           .end = "<tool_call|>",
                                           .separator = "",
                                           .quote = "<|\"|>"};
/// The form of Llama 3: {"name": "add", "parameters": {"a": 1, "b": 2}}
inline constexpr ToolCallForm kBareCalls{.begin = "<|python_tag|>",
                                         .head = "{\"name\": \"",
                                         .arguments_key = "\", \"parameters\": ",
                                         .tail = "}",
                                         .end = "",
                                         .separator = "",
                                         .is_whole_answer = true};

/// The form of a text that shows a call of `name` without arguments; kTaggedCalls where it has none of them.
const ToolCallForm& tool_call_form_of(std::string_view text, std::string_view name);

/// A function that an answer may call.
struct CallableFunction {
  std::string name;        ///< is_function_name()
  std::string parameters;  ///< JSON text of the arguments' schema, an object's; empty: the arguments are {}
  bool strict = false;     ///< JsonSchemaOptions::strict
  std::string place = "parameters";  ///< begins messages about the schema
  bool operator==(const CallableFunction&) const = default;
};

/// Calls of these functions with arguments that are valid against their schemas; in kQuotedCalls what
/// quoted_arguments.h says. Unless a call is required, the answer may also be any text without
/// ToolCallForm::begin, alone or before the calls; where a call is a whole answer, any text that does not
/// begin with a brace. With `answer` that text has this form, has no call behind it and is none itself.
struct ToolCallConstraint {
  std::vector<CallableFunction> functions;
  bool is_required = false;
  bool is_parallel = true;                ///< any number of calls; false: at most one
  std::optional<AnswerForm> answer = {};  ///< of a text in the place of calls; only where none is required
  const ToolCallForm* form = &kTaggedCalls;
  /// tag_texts() are the tokens TokenTable::specials in that order; false: they are written as text.
  bool has_tag_tokens = false;
  bool operator==(const ToolCallConstraint&) const = default;
};

/// The parts of a form that vocabularies may have as tokens: begin, end and quote, where it has them.
std::vector<std::string_view> tag_texts(const ToolCallForm& form);

inline constexpr size_t kMaxFunctions = 128;
inline constexpr size_t kMaxFunctionName = 128;
/// JsonSchemaOptions::shared_work of all functions' schemas together: about a second.
inline constexpr int64_t kToolSchemaWork = 240'000'000;

/// The names that is_function_name() accepts, for errors.
inline constexpr std::string_view kFunctionNameForm = "1 to 128 letters, digits and characters of \"_-.:/\"";
/// Whether a name has 1 to kMaxFunctionName letters, digits and characters of "_-.:/".
bool is_function_name(std::string_view name);

/// Throws InputError where the functions are none or too many, two share a name, a name has other
/// characters, or a schema is not that of an object or not supported, and as constraint_expression() does of
/// ToolCallConstraint::answer; AutomatonTooLarge.
Expression tool_call_expression(const ToolCallConstraint& constraint);

/// Lets functions whose schemas are not supported, or too large, have any arguments, unless they are strict.
/// Returns the places of their schemas. Throws where tool_call_expression() throws for another reason.
std::vector<std::string> relax_schemas(std::vector<CallableFunction>& functions,
                                       const ToolCallForm& form = kTaggedCalls);

/// Texts of whole characters in which `tag` does not occur. The tag's first byte is ASCII and occurs in it
/// once.
Expression text_without(std::string_view tag);

}  // namespace lacuna
