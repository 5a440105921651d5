#include "engine/tool_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "constraint/json_texts.h"

namespace lacuna {
namespace {

constexpr size_t kMaxArgumentValues = size_t{1} << 18;  // values in the JSON, at every level

std::string arguments_text(const std::string& arguments, const std::string& place) {
  if (arguments.empty()) return "{}";  // some clients send "" for functions without parameters
  const nlohmann::ordered_json value = parse_ordered_json(arguments, place, kMaxArgumentValues);
  if (!value.is_object())
    throw InputError("{} is {}; expected the JSON text of an object", place, in_quotes(arguments));
  return json_text(value, JsonLayout::kSpaced);
}

}  // namespace

void expect_call_id(const std::string& id, std::string_view place) {
  if (id.empty() || id.size() > kMaxCallIdBytes)
    throw InputError("{} is {}; expected 1 to {} bytes", place, in_quotes(id), kMaxCallIdBytes);
}

ToolCall checked_call(const std::string& name, std::string_view name_place, const std::string& arguments,
                      std::string_view arguments_place) {
  if (!is_function_name(name))
    throw InputError("{} is {}; expected {}", name_place, in_quotes(name), kFunctionNameForm);
  return {name, arguments_text(arguments, std::string(arguments_place))};
}

void add_calls(std::span<const ToolCall> calls, nlohmann::ordered_json& message) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ToolCall& call : calls) {
    nlohmann::ordered_json shown = nlohmann::ordered_json::object();
    if (!call.id.empty()) shown["id"] = call.id;
    shown["type"] = "function";
    shown["function"] = {{"name", call.name},
                         {"arguments", parse_ordered_json(call.arguments, "arguments", kMaxArgumentValues)}};
    list.push_back(std::move(shown));
  }
  message["tool_calls"] = std::move(list);
}

ToolCall ToolHistory::call(const std::optional<std::string>& id, std::string_view id_place,
                           const std::string& name, std::string_view name_place, const std::string& arguments,
                           std::string_view arguments_place) {
  if (id) expect_call_id(*id, id_place);
  ToolCall call = checked_call(name, name_place, arguments, arguments_place);
  call.id = id ? *id : fmt::format("call_{}", names_.size());
  names_[call.id] = name;
  open_.push_back(call.id);
  return call;
}

void ToolHistory::add_result(const std::string& id, std::string_view id_place, const std::string& content,
                             Conversation& conversation) {
  const auto name = names_.find(id);
  if (name == names_.end())
    throw InputError("{} is {}; expected the id of a call in an earlier message", id_place, in_quotes(id));
  std::erase(open_, id);
  nlohmann::ordered_json& message = conversation.add("tool", content);
  message["tool_call_id"] = id;
  message["name"] = name->second;
}

void ToolHistory::add_result(const std::string& content, Conversation& conversation,
                             std::string_view function) {
  if (open_.empty()) {
    conversation.add("tool", content);
    return;
  }
  const auto named = std::find_if(open_.begin(), open_.end(),
                                  [&](const std::string& id) { return names_.find(id)->second == function; });
  add_result(std::string(named == open_.end() ? open_.front() : *named), "", content, conversation);
}

}  // namespace lacuna
