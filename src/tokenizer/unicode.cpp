#include "tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>

namespace lacuna {
namespace {

struct Character {
  char32_t value = 0;
  size_t length = 0;  // in bytes; 0 if the text is ill-formed or empty
};

Character read_character(std::string_view text) {
  if (!text.empty() && static_cast<unsigned char>(text.front()) < 0x80) {
    return {static_cast<char32_t>(text.front()), 1};
  }
  utf8proc_int32_t value = 0;
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const size_t length_max = std::min<size_t>(text.size(), 4);
  const auto length = utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(length_max), &value);
  return length > 0 ? Character{static_cast<char32_t>(value), static_cast<size_t>(length)} : Character{};
}

bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0U) == 0x80;
}

Character read_last_character(std::string_view text) {
  if (text.empty()) return {};
  size_t begin = text.size() - 1;
  while (begin > 0 && is_continuation(text[begin])) --begin;
  const Character character = read_character(text.substr(begin));
  return character.length == text.size() - begin ? character : Character{};
}

template <typename Predicate>
std::string_view drop_at_start(std::string_view text, Predicate&& goes) {
  for (auto first = read_character(text); first.length > 0 && goes(first.value);
       first = read_character(text)) {
    text.remove_prefix(first.length);
  }
  return text;
}

template <typename Predicate>
std::string_view drop_at_end(std::string_view text, Predicate&& goes) {
  for (auto last = read_last_character(text); last.length > 0 && goes(last.value);
       last = read_last_character(text)) {
    text.remove_suffix(last.length);
  }
  return text;
}

// Bytes of the maximal subpart at the start of ill-formed `text`: the longest start of some well-formed
// character, or one byte. Only the second byte has a range of its own (Unicode, table 3-7).
size_t ill_formed_length(std::string_view text) {
  const auto byte = [&](size_t index) { return static_cast<unsigned char>(text[index]); };
  const unsigned lead = byte(0);
  if (lead < 0xc2 || lead > 0xf4 || text.size() == 1) return 1;
  const unsigned low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < low || byte(1) > high) return 1;
  return lead >= 0xf0 && text.size() > 2 && is_continuation(text[2]) ? 3 : 2;
}

}  // namespace

size_t well_formed_prefix(std::string_view text) {
  size_t position = 0;
  while (position < text.size()) {
    const Character character = read_character(text.substr(position));
    if (character.length == 0) break;
    position += character.length;
  }
  return position;
}

std::string replace_ill_formed(std::string_view bytes) {
  std::string text;
  while (true) {
    const size_t good = well_formed_prefix(bytes);
    text.append(bytes.substr(0, good));
    bytes.remove_prefix(good);
    if (bytes.empty()) return text;
    append_utf8(U'\uFFFD', text);
    bytes.remove_prefix(ill_formed_length(bytes));
  }
}

char32_t first_character(std::string_view text) {
  return read_character(text).value;
}

size_t first_character_bytes(std::string_view text) {
  return read_character(text).length;
}

char32_t last_character(std::string_view text) {
  return read_last_character(text).value;
}

void append_utf8(char32_t character, std::string& text) {
  std::array<utf8proc_uint8_t, 4> bytes{};
  const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(character), bytes.data());
  text.append(reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(length));
}

bool is_space(char32_t character) {
  if (character < 0x80) return character == ' ' || (character >= '\t' && character <= '\r');
  if (character == 0x85) return true;
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(character));
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

bool is_word(char32_t character) {
  constexpr char32_t kZeroWidthNonJoiner = 0x200c;
  constexpr char32_t kZeroWidthJoiner = 0x200d;
  if (character == kZeroWidthNonJoiner || character == kZeroWidthJoiner) return true;
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(character));
  // The categories of letters, marks and digits are consecutive.
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL) ||
         category == UTF8PROC_CATEGORY_PC;
}

std::string_view trim_start(std::string_view text) {
  return drop_at_start(text, is_space);
}

std::string_view trim_end(std::string_view text) {
  return drop_at_end(text, is_space);
}

std::string_view trim_as_python(std::string_view text) {
  const auto goes = [](char32_t character) {
    return is_space(character) || (character >= 0x1c && character <= 0x1f);
  };
  return drop_at_end(drop_at_start(text, goes), goes);
}

}  // namespace lacuna
