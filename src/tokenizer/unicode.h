// Character properties that tokenizers need. Unicode's tables are utf8proc's.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lacuna {

/// Part of a text, in bytes: [begin, end).
struct TextRange {
  size_t begin = 0;
  size_t end = 0;

  bool empty() const { return begin == end; }
  std::string_view of(std::string_view text) const { return text.substr(begin, end - begin); }
};

/// Bytes of the longest prefix of `text` that is well-formed UTF-8.
size_t well_formed_prefix(std::string_view text);

/// `bytes` as UTF-8: each ill-formed sequence becomes U+FFFD, one for each maximal subpart as Unicode (3.9)
/// recommends and Python's errors="replace" does. For output formats that must be UTF-8, such as JSON.
std::string replace_ill_formed(std::string_view bytes);

/// The first and last character of `text`; 0 if it is empty or ill-formed there.
char32_t first_character(std::string_view text);
size_t first_character_bytes(std::string_view text);
char32_t last_character(std::string_view text);

void append_utf8(char32_t character, std::string& text);

bool is_space(char32_t character);  ///< Unicode's White_Space
bool is_word(char32_t character);   ///< as `\w`: letters, marks, digits, connectors, joiners

/// `text` without the white space at its start or end.
std::string_view trim_start(std::string_view text);
std::string_view trim_end(std::string_view text);

/// `text` trimmed as by Python's strip(): U+001C to U+001F count as white space, too.
std::string_view trim_as_python(std::string_view text);

}  // namespace lacuna
