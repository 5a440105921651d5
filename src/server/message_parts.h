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

/// The same of a part of a tool's result, where an image is left out and has a note in its place: agents send
/// a result again with every turn, so that an error would end the conversation.
std::string text_of_result_part(const FieldValue& part, std::span<const std::string_view> types,
                                GenerationRequest& request);

/// The content of a chat's message: text, or a list of texts. Thoughts are left out.
///   is_result  of a tool
nlohmann::ordered_json read_content(const FieldValue& content, bool is_result, GenerationRequest& request);

}  // namespace lacuna
