#include "engine/chat_prompt.h"

#include <utility>

#include "constraint/json_texts.h"
#include "engine/tools.h"

namespace lacuna {
namespace {

using nlohmann::ordered_json;

std::string text_member(const ordered_json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool has_role(const ordered_json& message, std::string_view role) {
  return text_member(message, "role") == role;
}

/// JSON as templates render it; a string is returned unquoted.
std::string shown(const ordered_json& value) {
  return value.is_string() ? value.get<std::string>() : json_text(value, JsonLayout::kSpaced);
}

void describe_tools_in_system(const ordered_json& tools, ordered_json& messages) {
  std::vector<std::string> definitions;
  for (const ordered_json& tool : tools) definitions.push_back(json_text(tool, JsonLayout::kSpaced));
  const bool brings_system = !messages.empty() && has_role(messages.front(), "system");
  if (!brings_system) messages.insert(messages.begin(), ordered_json{{"role", "system"}, {"content", ""}});
  const std::string own = content_text(messages.front());
  messages.front()["content"] = own + (brings_system ? "\n\n" : "") + description_of_tools(definitions);
}

void write_calls_into_content(ordered_json& message) {
  std::vector<ToolCall> calls;
  for (const ordered_json& call : message["tool_calls"]) {
    const ordered_json& function = call.contains("function") ? call["function"] : call;
    const auto arguments = function.find("arguments");
    calls.push_back({text_member(function, "name"), arguments == function.end() ? "{}" : shown(*arguments)});
  }
  message["content"] = with_tool_calls(content_text(message), calls);
  message.erase("tool_calls");
}

/// Consecutive tool results share one user turn.
void add_result(const ordered_json& message, bool follows_result, ordered_json& messages) {
  const std::string text = tool_response(content_text(message));
  if (follows_result) {
    ordered_json& content = messages.back()["content"];
    content = content.get<std::string>() + "\n" + text;
  } else {
    messages.push_back({{"role", "user"}, {"content", text}});
  }
}

void write_arguments_as_text(ordered_json& message) {
  for (ordered_json& call : message["tool_calls"]) {
    ordered_json& function = call.contains("function") ? call["function"] : call;
    if (function.contains("arguments")) function["arguments"] = shown(function["arguments"]);
  }
}

ordered_json arranged(const TemplateTraits& traits, ordered_json given) {
  ordered_json messages = ordered_json::array();
  bool follows_result = false;  // the last of `messages` consists of tool results
  for (ordered_json& message : given) {
    if (has_role(message, "tool") && !traits.shows_results) {
      add_result(message, std::exchange(follows_result, true), messages);
      continue;
    }
    follows_result = false;
    const auto calls = message.find("tool_calls");
    if (calls != message.end() && calls->is_array()) {
      if (!traits.shows_calls) {
        write_calls_into_content(message);
      } else if (traits.takes_text_arguments) {
        write_arguments_as_text(message);
      }
    }
    messages.push_back(std::move(message));
  }
  return messages;
}

}  // namespace

Conversation as_template_shows(const ChatTemplate& chat_template, Conversation conversation) {
  const bool has_tools = conversation.tools.is_array() && !conversation.tools.empty();
  const TemplateTraits traits = chat_template.is_none() ? TemplateTraits() : chat_template.traits(has_tools);
  if (has_tools && !traits.shows_tools) describe_tools_in_system(conversation.tools, conversation.messages);
  if (!has_tools || !traits.shows_tools) conversation.tools = nullptr;
  conversation.messages = arranged(traits, std::move(conversation.messages));
  return conversation;
}

RenderedPrompt chat_prompt(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                           const Conversation& conversation) {
  return render_prompt(chat_template, tokenizer, as_template_shows(chat_template, conversation));
}

std::vector<Message> as_plain_turns(Conversation conversation) {
  std::vector<Message> turns;
  for (const ordered_json& message : as_template_shows({}, std::move(conversation)).messages) {
    turns.push_back({text_member(message, "role"), content_text(message)});
  }
  return turns;
}

}  // namespace lacuna
