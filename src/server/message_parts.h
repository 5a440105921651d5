// Contents of messages: texts, and lists of parts of which some are left out.
#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "server/request_fields.h"

namespace lacuna {

/// Types of the parts of a message that are text, in APIs with one such type.
inline constexpr std::array<std::string_view, 1> kTextPart = {"text"};

/// The text of a content: a string, or parts whose "type" is one of `types`, with their "text" (of type
/// refusal: "refusal"). FieldError, which names a part of another type.
std::string text_of_content(const FieldValue& content, std::span<const std::string_view> types);
/// The same of one part.
std::string text_of_part(const FieldValue& part, std::span<const std::string_view> types);

/// The text that the model reads in the place of a part of a tool's result that is an image; empty for other
/// parts. Agents send a result again with every turn, so that an error would end the conversation.
std::string_view note_of_image(const nlohmann::json& part);
inline constexpr const char* kResultImage = "tool_result.image";  ///< the name of what is left out

/// The content of a chat's message: text, or a list of texts, in which thoughts are left out.
///   is_result  of a tool, in which images have a note in their place
nlohmann::ordered_json read_content(const FieldValue& content, bool is_result);
/// Names what read_content() leaves out of the messages of a chat.
void note_left_out_parts(const nlohmann::json& messages, GenerationRequest& request);

}  // namespace lacuna
