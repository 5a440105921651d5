#include "tokenizer/byte_characters.h"

#include <array>

#include "tokenizer/unicode.h"

namespace lacuna {
namespace {

bool stands_for_itself(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

constexpr char32_t kCharacterMax = 0x143;  // 188 bytes map to themselves, 68 to U+0100 to U+0143

struct Alphabet {
  std::array<std::string, 256> text;                 // UTF-8 of each byte's character
  std::array<int16_t, kCharacterMax + 1> byte = {};  // byte of each character; -1: none

  Alphabet() {
    byte.fill(-1);
    char32_t next = 0x100;
    for (unsigned value = 0; value < 256; ++value) {
      const char32_t character = stands_for_itself(value) ? value : next++;
      append_utf8(character, text[value]);
      byte[character] = static_cast<int16_t>(value);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet kAlphabet;
  return kAlphabet;
}

}  // namespace

std::string to_byte_characters(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (const char byte : bytes) text += alphabet().text[static_cast<unsigned char>(byte)];
  return text;
}

std::optional<std::string> from_byte_characters(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  while (!text.empty()) {
    const char32_t character = first_character(text);
    if (character > kCharacterMax || alphabet().byte[character] < 0) return std::nullopt;
    bytes += static_cast<char>(alphabet().byte[character]);
    text.remove_prefix(character < 0x80 ? 1 : 2);
  }
  return bytes;
}

}  // namespace lacuna
