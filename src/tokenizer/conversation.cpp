#include "tokenizer/conversation.h"

namespace lacuna {

Conversation::Conversation(std::span<const Message> turns) {
  for (const Message& turn : turns) add(turn.role, turn.content);
}

nlohmann::ordered_json& Conversation::add(std::string_view role, std::string_view content) {
  messages.push_back({{"role", role}, {"content", content}});
  return messages.back();
}

std::string content_text(const nlohmann::ordered_json& message) {
  const auto content = message.find("content");
  if (content == message.end()) return {};
  if (content->is_string()) return content->get<std::string>();
  std::string text;
  if (!content->is_array()) return text;
  for (const nlohmann::ordered_json& part : *content) {
    const auto piece = part.is_object() ? part.find("text") : part.end();
    if (piece != part.end() && piece->is_string()) text += piece->get<std::string>();
  }
  return text;
}

}  // namespace lacuna
