// Spelling of text in SentencePiece's vocabularies: a space is U+2581, and a byte without an entry is <0x00>
// to <0xFF>.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lacuna {

inline constexpr std::string_view kEscapedSpace = "\u2581";

std::string escape_spaces(std::string_view text);
std::string unescape_spaces(std::string_view text);

/// The entry of a byte: "<0x0A>" for 10.
std::string byte_token(unsigned char byte);

/// The byte of an entry such as "<0x0A>", digits in upper or lower case; empty for other texts.
std::optional<char> byte_of_token(std::string_view token);

}  // namespace lacuna
