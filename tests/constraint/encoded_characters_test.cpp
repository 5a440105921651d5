#include "constraint/encoded_characters.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace lacuna::encoded_characters_test {
namespace {

std::string utf8(uint32_t code_point) {
  std::string text;
  const auto add = [&](uint32_t byte) { text += static_cast<char>(byte); };
  if (code_point < 0x80) {
    add(code_point);
  } else if (code_point < 0x800) {
    add(0xC0 | code_point >> 6);
    add(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    add(0xE0 | code_point >> 12);
    add(0x80 | (code_point >> 6 & 0x3F));
    add(0x80 | (code_point & 0x3F));
  } else {
    add(0xF0 | code_point >> 18);
    add(0x80 | (code_point >> 12 & 0x3F));
    add(0x80 | (code_point >> 6 & 0x3F));
    add(0x80 | (code_point & 0x3F));
  }
  return text;
}

bool spells(const EncodedCharacters& graph, const std::string& text) {
  int node = 0;
  for (const char c : text) {
    if (node == EncodedCharacters::kEnd) return false;
    const auto byte = static_cast<uint8_t>(c);
    std::optional<int> next;
    for (const auto& [first, last, target] : graph.nodes[static_cast<size_t>(node)]) {
      if (first > byte || byte > last) continue;
      EXPECT_FALSE(next) << "two edges for one byte";
      next = target;
    }
    if (!next) return false;
    node = *next;
  }
  return node == EncodedCharacters::kEnd;
}

TEST(EncodedCharacters, SpellEachCodePointOfTheSetAndNoOther) {
  const CodePointSet set(
      {{'a', 'f'}, {0x7F, 0x81}, {0x7FE, 0x802}, {0x4E00, 0x4E01}, {0xFFFF, 0x10000}, {0x10FFFE, 0x10FFFF}});
  const EncodedCharacters graph = encode_characters(set, TextEncoding::kUtf8);
  for (uint32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    ASSERT_EQ(spells(graph, utf8(c)), set.contains(c)) << c;
  }
}

TEST(EncodedCharacters, AllOfThemAreUtf8WithoutOverlongFormsAndSurrogates) {
  const EncodedCharacters graph = encode_characters(CodePointSet::all(), TextEncoding::kUtf8);
  for (const char* text :
       {"\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xED\xBF\xBF", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\x80", "\xFF", "\xE2\x82"}) {
    EXPECT_FALSE(spells(graph, text)) << testing::PrintToString(std::string(text));
  }
  EXPECT_LE(graph.nodes.size(), 8U);  // the same suffixes are one node
}

TEST(EncodedCharacters, EscapeWhatJsonEscapesAndNothingElse) {
  const EncodedCharacters graph = encode_characters(CodePointSet::all(), TextEncoding::kJsonString);
  for (const char* text :
       {"\\\"", "\\\\", "\\b", "\\t", "\\n", "\\f", "\\r", "a", "/", " ", "\x7F", "\xC3\xA9", "\xE2\x80\xA8"})
    EXPECT_TRUE(spells(graph, text)) << text;
  for (const char* text : {"\"", "\\", "\n", "\t", "\x01", "\\/", "\\u0041", "\\v", "\\a"})
    EXPECT_FALSE(spells(graph, text)) << text;
}

TEST(EncodedCharacters, EscapeOnlyCharactersOfTheSet) {
  const EncodedCharacters graph =
      encode_characters(CodePointSet({{'\n', '\n'}, {'a', 'a'}}), TextEncoding::kJsonString);
  EXPECT_TRUE(spells(graph, "\\n"));
  EXPECT_FALSE(spells(graph, "\\t"));
  EXPECT_FALSE(spells(graph, "\\\""));
}

}  // namespace
}  // namespace lacuna::encoded_characters_test
