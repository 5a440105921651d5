#include "server/tool_request.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "server/api_error.h"
#include "server/generation_request.h"
#include "server/request_fields.h"

namespace lacuna {
namespace {

using nlohmann::ordered_json;

std::string as_quoted(const ordered_json& value) {
  return value.is_string() ? in_quotes(value.get_ref<const std::string&>()) : shown(value);
}

const ordered_json& required_member(const ordered_json& object, std::string_view place, std::string_view key,
                                    std::string_view expected) {
  if (!object.is_object()) throw InputError("{} is {}; expected an object", place, as_quoted(object));
  const ordered_json* value = find_value(object, key);
  if (value == nullptr) throw InputError("{}.{} is missing; expected {}", place, key, expected);
  return *value;
}

std::string required_string(const ordered_json& object, std::string_view place, std::string_view key) {
  const ordered_json& value = required_member(object, place, key, "a string");
  if (!value.is_string()) throw InputError("{}.{} is {}; expected a string", place, key, as_quoted(value));
  return value.get<std::string>();
}

std::optional<std::string> optional_string(const ordered_json& object, std::string_view place,
                                           std::string_view key) {
  if (find_value(object, key) == nullptr) return {};
  return required_string(object, place, key);
}

bool flag_of(const ordered_json& object, std::string_view place, std::string_view key, bool fallback) {
  const ordered_json* value = find_value(object, key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean())
    throw InputError("{}{} is {}; expected true or false", place, key, as_quoted(*value));
  return value->get<bool>();
}

void expect_type(const ordered_json& object, std::string_view place, std::string_view expected) {
  const ordered_json* type = find_value(object, "type");
  if (type != nullptr && *type != expected)
    throw InputError("{}.type is {}; expected \"{}\"", place, as_quoted(*type), expected);
}

/// Names that differ between the APIs.
struct ToolNames {
  bool is_nested = true;  // the function's fields are in an object of their own
  std::string_view type = "function";
  std::string_view schema = "parameters";
};

ToolNames names_of(ToolFormat format) {
  if (format == ToolFormat::kResponses) return {.is_nested = false};
  if (format == ToolFormat::kAnthropic) return {false, "custom", "input_schema"};
  return {};
}

/// Whether a tool is not a function: a tool with a predefined type, run by the service or the client.
bool is_foreign(const ordered_json& tool, const ToolNames& names) {
  const ordered_json* type = find_value(tool, "type");
  return type != nullptr && type->is_string() && *type != names.type;
}

/// The JSON definition of a function for chat templates.
ordered_json definition_of(const ordered_json& function, const ToolNames& names) {
  ordered_json shown{{"name", function["name"]}};
  if (const ordered_json* description = find_value(function, "description"))
    shown["description"] = *description;
  if (const ordered_json* schema = find_value(function, names.schema)) shown["parameters"] = *schema;
  return {{"type", "function"}, {"function", std::move(shown)}};
}

void read_tool(const ordered_json& tool, const std::string& place, const ToolNames& names, Tools& tools) {
  expect_type(tool, place, names.type);
  const ordered_json& function =
      names.is_nested ? required_member(tool, place, "function", "an object with \"name\" and \"parameters\"")
                      : tool;
  const std::string inner = names.is_nested ? place + ".function" : place;
  CallableFunction callable{.name = required_string(function, inner, "name"),
                            .parameters = "",
                            .strict = flag_of(function, inner + ".", "strict", false),
                            .place = fmt::format("{}.{}", inner, names.schema)};
  const ordered_json* description = find_value(function, "description");
  if (description != nullptr && !description->is_string())
    throw InputError("{}.description is {}; expected a string", inner, as_quoted(*description));
  if (const ordered_json* parameters = find_value(function, names.schema)) {
    if (!parameters->is_object())
      throw InputError("{} is {}; expected a JSON schema", callable.place, as_quoted(*parameters));
    callable.parameters = parameters->dump();
  }
  const ordered_json definition = names.is_nested ? tool : definition_of(function, names);
  add_function(tools, std::move(callable), definition, inner);
}

std::string read_function_choice(const ordered_json& choice, const std::string& place, bool is_nested) {
  expect_type(choice, place, "function");
  const std::string inner = is_nested ? place + ".function" : place;
  return required_string(is_nested ? required_member(choice, place, "function", "{\"name\": ...}") : choice,
                         inner, "name");
}

/// Reads {"mode": "auto" or "required", "tools": [...]}: only the listed functions may be called.
void read_allowed_tools(const ordered_json& allowed, const std::string& place, bool is_nested, Tools& tools) {
  const std::string mode = required_string(allowed, place, "mode");
  if (mode != "auto" && mode != "required")
    throw InputError("{}.mode is {}; expected \"auto\" or \"required\"", place, in_quotes(mode));
  const ordered_json& list = required_member(allowed, place, "tools", "a list of functions");
  if (!list.is_array()) throw InputError("{}.tools is {}; expected a list", place, as_quoted(list));
  std::set<std::string> names;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string own = fmt::format("{}.tools.{}", place, i);
    if (is_foreign(list[i], {})) continue;  // ignored, as in the request's tools
    const std::string name = read_function_choice(list[i], own, is_nested);
    choose_function(name, own + (is_nested ? ".function.name" : ".name"), tools);  // throws if unknown
    names.insert(name);
  }
  tools.chosen.clear();
  tools.choice = mode == "auto" ? ToolChoice::kAuto : ToolChoice::kRequired;
  if (names.empty()) tools.choice = ToolChoice::kNone;
  if (names.empty() && mode == "required")
    throw InputError("{}.tools has no functions; expected one that may be called", place);
  if (!names.empty())
    std::erase_if(tools.functions,
                  [&](const ToolFunction& each) { return !names.contains(each.function.name); });
}

void read_choice(const ordered_json& choice, bool is_nested, Tools& tools) {
  if (choice == "none") {
    tools.choice = ToolChoice::kNone;
  } else if (choice == "auto") {
    tools.choice = ToolChoice::kAuto;
  } else if (choice == "required" || choice == "any") {  // "any" is Mistral's name
    tools.choice = ToolChoice::kRequired;
  } else if (is_nested && find_value(choice, "allowed_tools") != nullptr) {
    expect_type(choice, "tool_choice", "allowed_tools");
    read_allowed_tools(choice["allowed_tools"], "tool_choice.allowed_tools", is_nested, tools);
  } else if (!is_nested && find_value(choice, "mode") != nullptr) {
    expect_type(choice, "tool_choice", "allowed_tools");
    read_allowed_tools(choice, "tool_choice", is_nested, tools);
  } else if (choice.is_object()) {
    choose_function(read_function_choice(choice, "tool_choice", is_nested),
                    is_nested ? "tool_choice.function.name" : "tool_choice.name", tools);
  } else {
    throw InputError("tool_choice is {}; expected \"none\", \"auto\", \"required\" or {}", as_quoted(choice),
                     is_nested ? R"({"type": "function", "function": {"name": ...}})"
                               : R"({"type": "function", "name": ...})");
  }
}

void read_anthropic_choice(const ordered_json& choice, Tools& tools) {
  const std::string type = required_string(choice, "tool_choice", "type");
  if (type == "none") {
    tools.choice = ToolChoice::kNone;
  } else if (type == "auto") {
    tools.choice = ToolChoice::kAuto;
  } else if (type == "any") {
    tools.choice = ToolChoice::kRequired;
  } else if (type == "tool") {
    choose_function(required_string(choice, "tool_choice", "name"), "tool_choice.name", tools);
  } else {
    throw InputError("tool_choice.type is {}; expected \"none\", \"auto\", \"any\" or \"tool\"",
                     in_quotes(type));
  }
  tools.is_parallel = !flag_of(choice, "tool_choice.", "disable_parallel_tool_use", false);
}

void expect_no_choice(const ordered_json& body) {
  const ordered_json* choice = find_value(body, "tool_choice");
  if (choice == nullptr) return;
  const ordered_json* type = choice->is_object() ? find_value(*choice, "type") : choice;  // Anthropic's type
  const bool asks_for_calls = type == nullptr || (*type != "none" && *type != "auto");
  if (asks_for_calls)
    throw InputError("tool_choice is {} and there are no tools; expected \"none\", \"auto\", or tools",
                     as_quoted(*choice));
}

}  // namespace

std::optional<Tools> parse_tools(const ordered_json& body, ToolFormat format,
                                 std::vector<std::string>* left_out) {
  const ordered_json* list = find_value(body, "tools");
  if (list != nullptr && !list->is_array())
    throw FieldError("tools", fmt::format("tools is {}; expected a list of functions", as_quoted(*list)));
  if (list == nullptr || list->empty()) {
    in_field("tool_choice", [&] { expect_no_choice(body); });
    return {};
  }
  Tools tools;
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string place = fmt::format("tools.{}", i);
    if (is_foreign((*list)[i], names_of(format))) {
      if (left_out != nullptr) left_out->push_back("tools." + (*list)[i]["type"].get<std::string>());
    } else {
      in_field(place, [&] { read_tool((*list)[i], place, names_of(format), tools); });
    }
  }
  if (tools.functions.empty()) {
    in_field("tool_choice", [&] { expect_no_choice(body); });
    return {};
  }
  if (format == ToolFormat::kOllama) return tools;
  const ordered_json* choice = find_value(body, "tool_choice");
  if (choice != nullptr) {
    in_field("tool_choice", [&] {
      if (format == ToolFormat::kAnthropic) {
        read_anthropic_choice(*choice, tools);
      } else {
        read_choice(*choice, format == ToolFormat::kChat, tools);
      }
    });
  }
  if (format == ToolFormat::kAnthropic) return tools;
  tools.is_parallel = flag_of(body, "", "parallel_tool_calls", true);
  return tools;
}

void use_tools(Tools tools, GenerationRequest& request) {
  if (tools.choice == ToolChoice::kNone) {
    request.disabled_tools = std::move(tools);
    return;
  }
  request.constraint = tool_constraint(tools, request.constraint);
  for (Prompt& prompt : request.prompts) {
    if (auto* conversation = std::get_if<Conversation>(&prompt)) conversation->tools = definitions_of(tools);
  }
  request.tools = std::move(tools);
}

void refuse_legacy_functions(const ordered_json& body) {
  for (const char* key : {"functions", "function_call"}) {
    const ordered_json* value = find_value(body, key);
    if (value != nullptr && !value->empty() && *value != "none")
      throw FieldError(key, fmt::format("{} is not supported; use tools and tool_choice", key));
  }
}

void ChatHistory::add_calls_of(const ordered_json& message, std::string_view place, ordered_json& added) {
  if (find_value(message, "function_call") != nullptr)
    throw InputError("{}.function_call is not supported; use tool_calls", place);
  const ordered_json* list = find_value(message, "tool_calls");
  if (list == nullptr) return;
  if (!list->is_array() || list->size() > kMaxCalls)
    throw InputError("{}.tool_calls is {}; expected a list of at most {} calls", place, as_quoted(*list),
                     kMaxCalls);
  std::vector<ToolCall> calls;
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string own = fmt::format("{}.tool_calls.{}", place, i);
    const ordered_json* custom = find_value((*list)[i], "custom");
    if (custom != nullptr) {  // custom tool: its text input becomes one argument
      expect_type((*list)[i], own, "custom");
      const std::string inner = own + ".custom";
      const ordered_json arguments{{"input", required_string(*custom, inner, "input")}};
      calls.push_back(call(optional_string((*list)[i], own, "id"), own + ".id",
                           required_string(*custom, inner, "name"), inner + ".name", arguments.dump(),
                           inner + ".input"));
      continue;
    }
    expect_type((*list)[i], own, "function");
    const std::string inner = own + ".function";
    const ordered_json& function =
        required_member((*list)[i], own, "function", "an object with \"name\" and \"arguments\"");
    const std::string name = required_string(function, inner, "name");
    const ordered_json& arguments =
        required_member(function, inner, "arguments", "the JSON text of an object");
    const bool is_object = arguments.is_object();  // the form of chat templates
    const std::string text = is_object ? arguments.dump() : required_string(function, inner, "arguments");
    calls.push_back(call(optional_string((*list)[i], own, "id"), own + ".id", name, inner + ".name", text,
                         inner + ".arguments"));
  }
  if (!calls.empty()) add_calls(calls, added);
}

void ChatHistory::add_message(const ordered_json& message, std::string_view place,
                              const ordered_json& content, Conversation& conversation) {
  const std::optional<std::string> id = optional_string(message, place, "tool_call_id");
  if (id) {
    add_result(*id, fmt::format("{}.tool_call_id", place), "", conversation);
  } else if (has_calls()) {
    const std::string function = optional_string(message, place, "name").value_or("");
    add_result("", conversation, function);
  } else {
    throw InputError("{}.tool_call_id is missing; expected the id of a call in an earlier message", place);
  }
  conversation.messages.back()["content"] = content;
}

}  // namespace lacuna
