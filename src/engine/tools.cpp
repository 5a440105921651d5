#include "engine/tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/rng.h"
#include "constraint/json_texts.h"

namespace lacuna {
void add_function(Tools& tools, CallableFunction function, const nlohmann::ordered_json& definition,
                  std::string_view place) {
  if (tools.functions.size() == kMaxFunctions)
    throw InputError("tools has more than {} functions; expected at most that many", kMaxFunctions);
  if (!is_function_name(function.name))
    throw InputError("{}.name is {}; expected {}", place, in_quotes(function.name), kFunctionNameForm);
  const bool is_known = std::ranges::any_of(
      tools.functions, [&](const ToolFunction& each) { return each.function.name == function.name; });
  if (is_known)
    throw InputError("{}.name is {}, the name of an earlier function; expected another one", place,
                     in_quotes(function.name));
  tools.functions.push_back({std::move(function), json_text(definition, JsonLayout::kSpaced)});
}

void choose_function(std::string name, std::string_view place, Tools& tools) {
  tools.choice = ToolChoice::kNamed;
  tools.chosen = std::move(name);
  const bool exists = std::ranges::any_of(
      tools.functions, [&](const ToolFunction& each) { return each.function.name == tools.chosen; });
  if (!exists)
    throw InputError("{} is {}; expected the name of one of tools", place, in_quotes(tools.chosen));
}

bool requires_call(const Tools& tools) {
  return tools.choice == ToolChoice::kRequired || tools.choice == ToolChoice::kNamed;
}

ToolCallConstraint tool_constraint(const Tools& tools, const std::optional<Constraint>& answer) {
  ToolCallConstraint constraint;
  constraint.is_required = requires_call(tools);
  if (answer && !constraint.is_required) constraint.answer = answer_form_of(*answer);
  constraint.is_parallel = tools.is_parallel && tools.choice != ToolChoice::kNamed;
  for (const ToolFunction& each : tools.functions) {
    if (tools.choice != ToolChoice::kNamed || each.function.name == tools.chosen)
      constraint.functions.push_back(each.function);
  }
  expects(!constraint.functions.empty(), "the chosen function is one of the tools");
  return constraint;
}

nlohmann::ordered_json definitions_of(const Tools& tools) {
  if (tools.functions.empty() || tools.choice == ToolChoice::kNone) return nullptr;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ToolFunction& each : tools.functions)
    list.push_back(parse_ordered_json(each.definition, "tools"));
  return list;
}

std::string description_of_tools(std::span<const std::string> definitions) {
  std::string text =
      "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with "
      "function signatures within <tools></tools> XML tags:\n<tools>";
  for (const std::string& each : definitions) text += "\n" + each;
  return text +
         "\n</tools>\n\nFor each function call, return a json object with function name and arguments within "
         "<tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": "
         "<args-json-object>}\n</tool_call>";
}

std::string with_tool_calls(std::string_view content, std::span<const ToolCall> calls) {
  std::string text(content);
  for (const ToolCall& call : calls) {
    if (!text.empty()) text += kTaggedCalls.separator;
    for (const std::string_view part :
         {kTaggedCalls.begin, kTaggedCalls.head, std::string_view(call.name), kTaggedCalls.arguments_key,
          std::string_view(call.arguments), kTaggedCalls.tail, kTaggedCalls.end}) {
      text += part;
    }
  }
  return text;
}

std::string tool_response(std::string_view result) {
  return fmt::format("<tool_response>\n{}\n</tool_response>", result);
}

uint64_t tool_call_key(uint64_t seed, std::span<const TokenId> prompt) {
  uint64_t key = RngStream(seed, prompt.size()).key();
  for (const TokenId token : prompt) key = RngStream(key, token).key();
  return key;
}

std::string tool_call_id(uint64_t key, size_t index) {
  const RngStream digits(key, index);
  return fmt::format("call_{:016x}{:08x}", digits.bits(0), static_cast<uint32_t>(digits.bits(1)));
}

}  // namespace lacuna
