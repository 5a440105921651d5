#include "tokenizer/sentencepiece.h"

#include <fmt/format.h>

#include <charconv>

namespace lacuna {
namespace {

std::string replace(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  result.reserve(text.size());
  for (size_t at = text.find(from); at != std::string_view::npos; at = text.find(from)) {
    result.append(text.substr(0, at)).append(to);
    text.remove_prefix(at + from.size());
  }
  return result.append(text);
}

}  // namespace

std::string escape_spaces(std::string_view text) {
  return replace(text, " ", kEscapedSpace);
}

std::string unescape_spaces(std::string_view text) {
  return replace(text, kEscapedSpace, " ");
}

std::string byte_token(unsigned char byte) {
  return fmt::format("<0x{:02X}>", byte);
}

std::optional<char> byte_of_token(std::string_view token) {
  constexpr size_t kBegin = 3, kEnd = 5;  // first digit
  if (token.size() != kEnd + 1 || !token.starts_with("<0x") || !token.ends_with('>')) return std::nullopt;
  unsigned char byte = 0;
  const auto [end, error] = std::from_chars(token.data() + kBegin, token.data() + kEnd, byte, 16);
  if (error != std::errc() || end != token.data() + kEnd) return std::nullopt;
  return static_cast<char>(byte);
}

}  // namespace lacuna
