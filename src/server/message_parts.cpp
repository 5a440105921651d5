#include "server/message_parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/api_request.h"

namespace lacuna {
namespace {

using nlohmann::json;

/// Whether a part of a content is a thought, which its own service alone can read again.
bool is_thought(const json& part) {
  const json* type = part.is_object() ? find_value(part, "type") : nullptr;
  return type != nullptr && (*type == "thinking" || *type == "redacted_thinking" || *type == "reasoning");
}

}  // namespace

std::string text_of_content(const FieldValue& content, std::span<const std::string_view> types) {
  if (content.value.is_string()) return content.text();
  if (!content.value.is_array()) content.refuse("text");
  std::string text;
  for (size_t i = 0; i < content.value.size(); ++i)
    text += text_of_part({fmt::format("{}.{}", content.place, i), content.value[i]}, types);
  return text;
}

std::string text_of_part(const FieldValue& part, std::span<const std::string_view> types) {
  const json* type = part.value.is_object() ? find_value(part.value, "type") : nullptr;
  const char* key = type != nullptr && *type == "refusal" ? "refusal" : "text";
  const json* piece = part.value.is_object() ? find_value(part.value, key) : nullptr;
  const bool is_text = type != nullptr && type->is_string() && piece != nullptr && piece->is_string() &&
                       std::find(types.begin(), types.end(), type->get<std::string>()) != types.end();
  if (!is_text) part.refuse(fmt::format("{{\"type\": \"{}\", \"text\": ...}}", types.front()));
  return piece->get<std::string>();
}

std::string_view note_of_image(const json& part) {
  const json* type = part.is_object() ? find_value(part, "type") : nullptr;
  const bool is_image =
      type != nullptr && (*type == "image" || *type == "image_url" || *type == "input_image");
  return is_image ? "[an image, which this model cannot read]" : std::string_view();
}

nlohmann::ordered_json read_content(const FieldValue& content, bool is_result) {
  constexpr std::array<std::string_view, 2> kTypes = {"text", "refusal"};
  if (!content.value.is_array()) return text_of_content(content, kTypes);
  nlohmann::ordered_json parts = nlohmann::ordered_json::array();
  for (size_t i = 0; i < content.value.size(); ++i) {
    const FieldValue part{fmt::format("{}.{}", content.place, i), content.value[i]};
    if (is_thought(part.value)) continue;
    const std::string_view note = is_result ? note_of_image(part.value) : std::string_view();
    parts.push_back(
        {{"type", "text"}, {"text", note.empty() ? text_of_part(part, kTypes) : std::string(note)}});
  }
  return parts;
}

void note_left_out_parts(const json& messages, GenerationRequest& request) {
  for (const json& message : messages) {
    const json* content = find_value(message, "content");
    if (content == nullptr || !content->is_array()) continue;
    for (const json& part : *content) {
      if (is_thought(part)) leave_out(part["type"].get<std::string>(), request);
      if (message["role"] == "tool" && !note_of_image(part).empty()) leave_out(kResultImage, request);
    }
  }
}

}  // namespace lacuna
