// GPT-2's byte alphabet: one printable character for each of the 256 bytes, so that vocabulary files are
// plain text. Printable Latin-1 bytes map to themselves, the others to U+0100 and up (space: U+0120).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lacuna {

std::string to_byte_characters(std::string_view bytes);

/// The bytes that `text` spells; empty if some character stands for no byte.
std::optional<std::string> from_byte_characters(std::string_view text);

}  // namespace lacuna
