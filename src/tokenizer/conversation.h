// A conversation as chat templates read it.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lacuna/types.h"

namespace lacuna {

/// The variables of a template, in the form that published templates expect: OpenAI's, with the arguments of
/// calls as objects.
struct Conversation {
  Conversation() = default;
  /// NOLINTNEXTLINE(google-explicit-constructor): plain turns are a conversation
  Conversation(std::span<const Message> turns);
  Conversation(const std::vector<Message>& turns) : Conversation(std::span(turns)) {}

  /// Adds {"role", "content"}, and returns it for further members.
  nlohmann::ordered_json& add(std::string_view role, std::string_view content);

  nlohmann::ordered_json messages = nlohmann::ordered_json::array();  ///< objects with "role"
  /// A list of {"type": "function", "function": {"name", "description", "parameters"}}; null: none.
  nlohmann::ordered_json tools = nullptr;
  nlohmann::ordered_json documents = nullptr;  ///< a list; null: none
  /// Further variables of the template, such as enable_thinking. They override ChatTemplate::keywords().
  nlohmann::ordered_json keywords = nlohmann::ordered_json::object();
  bool add_generation_prompt = true;  ///< whether the prompt ends with the beginning of an answer
  std::string continuation = {};      ///< given beginning of the answer, which ends the prompt

  bool operator==(const Conversation&) const = default;
};

/// The text of a message's content: a string, or the joined texts of a list of {"type": "text", "text"}; ""
/// if it is absent or null.
std::string content_text(const nlohmann::ordered_json& message);

}  // namespace lacuna
