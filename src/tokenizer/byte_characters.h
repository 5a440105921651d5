// GPT-2's alphabet: each of the 256 bytes written as one printable character, so that vocabulary files can be
// plain text. Printable Latin-1 bytes stand for themselves; the others are U+0100 and up, in byte order
// (a space is U+0120).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lacuna {

std::string to_byte_characters(std::string_view bytes);

/// The bytes that `text` spells, or nothing where some character of it spells no byte.
std::optional<std::string> from_byte_characters(std::string_view text);

}  // namespace lacuna
