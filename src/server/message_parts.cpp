#include "server/message_parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/generation_request.h"

namespace lacuna {
namespace {

using nlohmann::ordered_json;

/// Whether a part is a thought, which only the service that wrote it can use.
bool is_thought(const ordered_json& part) {
  const ordered_json* type = find_value(part, "type");
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
  const ordered_json* type = find_value(part.value, "type");
  const char* key = type != nullptr && *type == "refusal" ? "refusal" : "text";
  const ordered_json* piece = find_value(part.value, key);
  const bool is_text = type != nullptr && type->is_string() && piece != nullptr && piece->is_string() &&
                       std::find(types.begin(), types.end(), type->get<std::string>()) != types.end();
  if (!is_text) part.refuse(fmt::format("{{\"type\": \"{}\", \"text\": ...}}", types.front()));
  return piece->get<std::string>();
}

std::string text_of_result_part(const FieldValue& part, std::span<const std::string_view> types,
                                GenerationRequest& request) {
  const ordered_json* type = find_value(part.value, "type");
  const bool is_image =
      type != nullptr && (*type == "image" || *type == "image_url" || *type == "input_image");
  if (!is_image) return text_of_part(part, types);
  leave_out("tool_result.image", request);
  return "[an image, which this model cannot read]";
}

ordered_json read_content(const FieldValue& content, bool is_result, GenerationRequest& request) {
  constexpr std::array<std::string_view, 2> kTypes = {"text", "refusal"};
  if (!content.value.is_array()) return text_of_content(content, kTypes);
  ordered_json parts = ordered_json::array();
  for (size_t i = 0; i < content.value.size(); ++i) {
    const FieldValue part{fmt::format("{}.{}", content.place, i), content.value[i]};
    if (is_thought(part.value)) {
      leave_out(part.value["type"].get<std::string>(), request);
      continue;
    }
    std::string text = is_result ? text_of_result_part(part, kTypes, request) : text_of_part(part, kTypes);
    parts.push_back({{"type", "text"}, {"text", std::move(text)}});
  }
  return parts;
}

}  // namespace lacuna
