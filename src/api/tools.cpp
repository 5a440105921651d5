#include "api/tools.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "engine/chat_prompt.h"
#include "engine/tool_call_reader.h"
#include "engine/tool_history.h"

namespace lacuna {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void refuse_value(const std::string& place, const Json& value, std::string_view expected) {
  const std::string text = value.is_string() ? value.get<std::string>() : dump_json(value);
  throw InputError("{} is {}; expected {}", place, in_quotes(text), expected);
}

/// A member of an object; null pointer if it is missing or null.
const Json* given(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string text_member(const std::string& place, const Json& object, const char* key, bool is_required) {
  const Json* value = given(object, key);
  const std::string own = place + "." + key;
  if (value == nullptr && is_required) throw InputError("{} is missing; expected text", own);
  if (value == nullptr) return {};
  if (!value->is_string()) refuse_value(own, *value, "text");
  return value->get<std::string>();
}

/// The object that describes the function of a tool, a choice or a call.
const Json& function_of(const std::string& place, const Json& value) {
  if (!value.is_object()) refuse_value(place, value, "an object with \"function\"");
  const Json* type = given(value, "type");
  if (type != nullptr && *type != "function") refuse_value(place + ".type", *type, "function");
  const Json* function = given(value, "function");
  if (function == nullptr) return value;
  if (!function->is_object()) refuse_value(place + ".function", *function, "an object with \"name\"");
  return *function;
}

Tool tool_of(const std::string& place, const Json& value) {
  const Json& function = function_of(place, value);
  Tool tool{.name = text_member(place, function, "name", true),
            .description = text_member(place, function, "description", false),
            .parameters = ""};
  if (const Json* parameters = given(function, "parameters")) {
    if (!parameters->is_object()) refuse_value(place + ".parameters", *parameters, "a JSON schema");
    tool.parameters = parameters->dump();
  }
  if (const Json* strict = given(function, "strict")) {
    if (!strict->is_boolean()) refuse_value(place + ".strict", *strict, "true or false");
    tool.strict = strict->get<bool>();
  }
  return tool;
}

/// The JSON definition of a function for chat templates.
Json definition_of(const Tool& tool, const std::string& place) {
  Json function{{"name", tool.name}};
  if (!tool.description.empty()) function["description"] = tool.description;
  if (!tool.parameters.empty()) {
    function["parameters"] = parse_ordered_json(tool.parameters, place + ".parameters");
    if (!function["parameters"].is_object())
      throw InputError("{}.parameters is {}; expected the JSON schema of an object", place,
                       in_quotes(tool.parameters));
  }
  return {{"type", "function"}, {"function", std::move(function)}};
}

void read_calls(const std::string& place, const Json& list, ToolHistory& history, Json& message) {
  if (!list.is_array() || list.size() > kMaxCalls)
    refuse_value(place, list, fmt::format("a list of at most {} calls", kMaxCalls));
  std::vector<ToolCall> calls;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string own = fmt::format("{}.{}", place, i);
    const Json& function = function_of(own, list[i]);
    calls.push_back(history.call(text_member(own, list[i], "id", true), own + ".id",
                                 text_member(own, function, "name", true), own + ".name",
                                 text_member(own, function, "arguments", true), own + ".arguments"));
  }
  if (!calls.empty()) add_calls(calls, message);
}

}  // namespace

std::optional<Tools> tools_of(const Request& request) {
  if (request.tools.empty()) {
    if (request.tool_choice != "auto" && request.tool_choice != "none")
      throw InputError("tool_choice is {}; expected auto or none, as there are no tools",
                       in_quotes(request.tool_choice));
    return {};
  }
  if (request.messages.empty() && request.prompt.empty())
    throw InputError("tools need a prompt or messages; tokens cannot be told about functions");
  Tools tools;
  for (size_t i = 0; i < request.tools.size(); ++i) {
    const Tool& tool = request.tools[i];
    const std::string place = fmt::format("tools.{}", i);
    CallableFunction function{tool.name, tool.parameters, tool.strict, place + ".parameters"};
    add_function(tools, std::move(function), definition_of(tool, place), place);
  }
  tools.is_parallel = request.parallel_tool_calls;
  if (request.tool_choice == "none") return {};
  if (request.tool_choice == "required") {
    tools.choice = ToolChoice::kRequired;
  } else if (request.tool_choice != "auto") {
    choose_function(request.tool_choice, "tool_choice", tools);
  }
  return tools;
}

bool read_tool_key(const std::string& place, const std::string& key, const Json& value, Request& request) {
  const std::string own = fmt::format("{}: {}", place, key);
  if (key == "tools") {
    if (!value.is_array()) refuse_value(own, value, "a list of functions");
    for (size_t i = 0; i < value.size(); ++i)
      request.tools.push_back(tool_of(fmt::format("{}.{}", own, i), value[i]));
  } else if (key == "tool_choice") {
    request.tool_choice = value.is_string() ? value.get<std::string>()
                                            : text_member(own, function_of(own, value), "name", true);
  } else if (key == "parallel_tool_calls") {
    if (!value.is_boolean()) refuse_value(own, value, "true or false");
    request.parallel_tool_calls = value.get<bool>();
  } else {
    return false;
  }
  return true;
}

std::vector<Message> messages_of(const std::string& place, const Json& value) {
  if (!value.is_array() || value.empty())
    refuse_value(fmt::format("{}: messages", place), value, "a list of {role, content}");
  Conversation conversation;
  ToolHistory history;
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string own = fmt::format("{}: messages.{}", place, i);
    const Json& turn = value[i];
    if (!turn.is_object()) refuse_value(own, turn, "an object with \"role\" and \"content\"");
    const std::string role = text_member(own, turn, "role", true);
    const Json* calls = role == "assistant" ? given(turn, "tool_calls") : nullptr;
    const std::string content = text_member(own, turn, "content", calls == nullptr);
    if (role == "tool") {
      history.add_result(text_member(own, turn, "tool_call_id", true), fmt::format("{}.tool_call_id", own),
                         content, conversation);
      continue;
    }
    Json& message = conversation.add(role, content);
    if (calls != nullptr) read_calls(fmt::format("{}.tool_calls", own), *calls, history, message);
  }
  return as_plain_turns(std::move(conversation));
}

Json to_json(const ToolAnswer& answer) {
  Json calls = Json::array();
  for (const ToolCall& call : answer.calls) {
    calls.push_back({{"id", call.id},
                     {"type", "function"},
                     {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  Json message{{"role", "assistant"}, {"content", answer.content}};
  if (!calls.empty()) message["tool_calls"] = std::move(calls);
  return message;
}

namespace {

/// Splits a text into content and calls, without ids.
ToolAnswer read_calls(std::string_view text, const ToolCallForm& form) {
  ToolAnswer read;
  ToolCallReader reader(form);
  for (const ToolCallReader::Piece& piece : reader.advance(text, true)) {
    if (!piece.call) {
      read.content += piece.text;
    } else if (!piece.name.empty()) {
      read.calls.push_back({piece.name, ""});
    } else {
      read.calls.back().arguments += piece.text;
    }
  }
  return read;
}

}  // namespace

std::string with_tagged_calls(std::string text, const ToolCallForm& form) {
  if (&form == &kTaggedCalls) return text;
  const ToolAnswer read = read_calls(text, form);
  return read.calls.empty() ? text : with_tool_calls(read.content, read.calls);
}

ToolAnswer read_tool_answer(const Answer& answer) {
  ToolAnswer read = read_calls(answer.text, kTaggedCalls);
  // The prompt grows with every turn, so its length makes ids unique within a conversation.
  const uint64_t key = tool_call_key(answer.seed + static_cast<uint64_t>(answer.prompt_tokens) * 0x10001,
                                     std::span(answer.tokens));
  for (size_t i = 0; i < read.calls.size(); ++i) read.calls[i].id = tool_call_id(key, i);
  return read;
}

Message assistant_turn(std::string_view content, std::span<const ToolCall> calls) {
  std::vector<ToolCall> checked;
  for (const ToolCall& call : calls)
    checked.push_back(checked_call(call.name, "the call's name", call.arguments, "the call's arguments"));
  return {"assistant", with_tool_calls(content, checked)};
}

Message tool_results(std::span<const std::string> results) {
  if (results.empty()) throw InputError("there are no results; expected one for each call");
  ToolHistory history;
  Conversation conversation;
  for (const std::string& result : results) history.add_result(result, conversation);
  return as_plain_turns(std::move(conversation)).front();
}

}  // namespace lacuna
