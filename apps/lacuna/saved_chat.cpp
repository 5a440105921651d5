#include "saved_chat.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/read_file.h"
#include "base/written_file.h"
#include "tokenizer/unicode.h"

namespace lacuna {
namespace {

constexpr std::string_view kChatFormat = "lacuna-chat";
constexpr int kChatVersion = 1;
constexpr size_t kMaxChatBytes = size_t{1} << 26;

/// Throws InputError unless `file` is new or a saved chat, so that a mistyped name overwrites no other file.
void expect_replaceable(const std::string& file) {
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::symlink_status(file, ignored))) return;
  try {
    load_chat(file);
  } catch (const InputError&) {
    throw InputError("{}: exists and is not a saved chat; expected a new file, or a chat to replace", file);
  }
}

}  // namespace

std::string to_text(const SavedChat& chat) {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  if (!chat.system.empty()) messages.push_back({{"role", "system"}, {"content", chat.system}});
  for (const Message& message : chat.messages) {
    messages.push_back({{"role", message.role}, {"content", message.content}});
  }
  const nlohmann::ordered_json json{
      {"format", kChatFormat}, {"version", kChatVersion}, {"model", chat.model}, {"messages", messages}};
  return dump_json(json, 2) + '\n';
}

SavedChat parse_chat(std::string_view text, const std::string& file) {
  const nlohmann::json json = parse_json(text, file);
  const JsonObject object(json, file);
  if (object.text("format", "") != kChatFormat) {
    throw InputError("{}: is not a saved chat; expected the file that /save writes", file);
  }
  object.integer("version", {kChatVersion, kChatVersion});
  SavedChat chat;
  chat.model = object.text("model", "");
  const auto list = json.find("messages");
  if (list == json.end() || !list->is_array()) object.refuse("messages", "a list of messages");
  for (const nlohmann::json& each : *list) {
    const size_t index = static_cast<size_t>(&each - &list->front());
    const JsonObject message(each, file, fmt::format("messages[{}].", index));
    const std::string role = message.text("role");
    const bool is_system = index == 0 && role == "system";
    const char* const expected = chat.messages.size() % 2 == 0 ? "user" : "assistant";
    if (!is_system && role != expected) message.refuse("role", in_quotes(expected));
    if (is_system) {
      chat.system = message.text("content");
    } else {
      chat.messages.push_back({role, message.text("content")});
    }
  }
  if (chat.messages.size() % 2 != 0) throw InputError("{}: its last message has no answer", file);
  return chat;
}

void save_chat(const SavedChat& chat, const std::string& file) {
  expect_replaceable(file);
  write_whole_file(file, to_text(chat));
}

SavedChat load_chat(const std::string& file) {
  return parse_chat(read_whole_file(file, kMaxChatBytes), file);
}

}  // namespace lacuna
