// Reads the contents of messages: a text, or a list of parts.
#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "server/request_fields.h"

namespace lacuna {

/// Types of text parts, in APIs with only one such type.
inline constexpr std::array<std::string_view, 1> kTextPart = {"text"};

/// The text of a content: a string, or the "text" of parts with a "type" in `types` ("refusal" if the type is
/// refusal). Throws FieldError, which names the part, for another type.
std::string text_of_content(const FieldValue& content, std::span<const std::string_view> types);
/// The text of one part, as in text_of_content().
std::string text_of_part(const FieldValue& part, std::span<const std::string_view> types);

/// The text of one part of a tool's result. An image becomes a note instead of an error: agents send results
/// again with every turn, so an error would end the conversation.
std::string text_of_result_part(const FieldValue& part, std::span<const std::string_view> types,
                                GenerationRequest& request);

/// The content of a chat's message: text, or a list of texts. Thoughts are left out.
///   is_result  whether the message is a tool's result
nlohmann::ordered_json read_content(const FieldValue& content, bool is_result, GenerationRequest& request);

}  // namespace lacuna
