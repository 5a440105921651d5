// How SentencePiece's vocabularies spell text: a space as U+2581, and a byte that no entry covers as <0x00>
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

/// The byte of such an entry, with digits in upper or lower case, or nothing for other texts.
std::optional<char> byte_of_token(std::string_view token);

}  // namespace lacuna
