// Calls of functions as the text of an answer, in the forms that chat templates show to models. Most show
// Qwen's form, and for a template without any form, the prompt describes Qwen's in words:
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
  /// Surrounds strings in arguments (quoted_arguments.h), which have the form {key:1,other:{key:true}}. If
  /// empty, arguments are JSON.
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

/// Detects the form of a call of `name` without arguments within `text`; kTaggedCalls if no form matches.
const ToolCallForm& tool_call_form_of(std::string_view text, std::string_view name);

/// A function that an answer may call.
struct CallableFunction {
  std::string name;        ///< is_function_name()
  std::string parameters;  ///< JSON text of the arguments' schema, of type object; empty: arguments are {}
  bool strict = false;     ///< JsonSchemaOptions::strict
  std::string place = "parameters";  ///< begins messages about the schema
  bool operator==(const CallableFunction&) const = default;
};

/// Calls of these functions with arguments that are valid against their schemas (kQuotedCalls:
/// quoted_arguments()). Unless a call is required, the answer may also be any text without
/// ToolCallForm::begin, alone or before the calls; with is_whole_answer, any text that does not begin with a
/// brace or white space. With `answer`, the text has that form, no call follows it, and it does not look like
/// a call itself.
struct ToolCallConstraint {
  std::vector<CallableFunction> functions;
  bool is_required = false;
  bool is_parallel = true;                ///< any number of calls; false: at most one
  std::optional<AnswerForm> answer = {};  ///< form of a text instead of calls; only if no call is required
  const ToolCallForm* form = &kTaggedCalls;
  /// True: tag_texts() are the tokens TokenTable::specials, in that order. False: they are written as text.
  bool has_tag_tokens = false;
  bool operator==(const ToolCallConstraint&) const = default;
};

/// The nonempty ones of a form's begin, end and quote, which vocabularies may have as tokens.
std::vector<std::string_view> tag_texts(const ToolCallForm& form);

inline constexpr size_t kMaxFunctions = 128;
inline constexpr size_t kMaxFunctionName = 128;
/// JsonSchemaOptions::shared_work for the schemas of all functions together: about a second.
inline constexpr int64_t kToolSchemaWork = 240'000'000;

/// The names that is_function_name() accepts, for errors.
inline constexpr std::string_view kFunctionNameForm = "1 to 128 letters, digits and characters of \"_-.:/\"";
/// Whether a name has 1 to kMaxFunctionName letters, digits and characters of "_-.:/".
bool is_function_name(std::string_view name);

/// Throws InputError for no or too many functions, a duplicate or malformed name, or a schema that is
/// unsupported or does not describe an object; as constraint_expression() does for
/// ToolCallConstraint::answer; AutomatonTooLarge.
Expression tool_call_expression(const ToolCallConstraint& constraint);

/// Replaces unsupported or too large schemas by one that allows any arguments, except in strict functions.
/// Returns CallableFunction::place of each replaced schema. Throws InputError for malformed schemas.
std::vector<std::string> relax_schemas(std::vector<CallableFunction>& functions,
                                       const ToolCallForm& form = kTaggedCalls);

/// Texts of whole characters in which `tag` does not occur. The tag's first byte is ASCII and occurs in it
/// once.
Expression text_without(std::string_view tag);

}  // namespace lacuna
