#include "tokenizer/unicode.h"

#include <gtest/gtest.h>

#include "tokenizer/byte_characters.h"

namespace lacuna::unicode_test {
namespace {

TEST(Unicode, ReplacesEachMaximalIllFormedPart) {
  EXPECT_EQ(replace_ill_formed("plain \u00e9\U0001f642"), "plain \u00e9\U0001f642");
  EXPECT_EQ(replace_ill_formed("a\xff\xfe"), "a\uFFFD\uFFFD");
  EXPECT_EQ(replace_ill_formed("\xf0\x9f\x99"), "\uFFFD") << "the start of one character";
  EXPECT_EQ(replace_ill_formed("\xe2\x82!"), "\uFFFD!");
  EXPECT_EQ(replace_ill_formed("\xed\xa0\x80"), "\uFFFD\uFFFD\uFFFD")
      << "surrogates have no well-formed start";
  EXPECT_EQ(replace_ill_formed("\xc0\xaf"), "\uFFFD\uFFFD") << "overlong";
}

TEST(Unicode, TrimsAsPythonDoesAndLeavesIllFormedBytes) {
  EXPECT_EQ(trim_as_python("\x1f\u3000 a b\u0085\n"), "a b");
  EXPECT_EQ(trim_as_python(" a \x80"), "a \x80");
  EXPECT_EQ(trim_start("\x1f"), "\x1f");
  EXPECT_EQ(trim_end(" \n\t"), "");
}

TEST(ByteCharacters, SpellEveryByteAndBack) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  EXPECT_EQ(from_byte_characters(to_byte_characters(bytes)), bytes);
  EXPECT_EQ(to_byte_characters(" a\n\xff"), "ĠaĊÿ");
  EXPECT_EQ(from_byte_characters("a b"), std::nullopt) << "a space is written Ġ";
  EXPECT_EQ(from_byte_characters("日"), std::nullopt);
}

}  // namespace
}  // namespace lacuna::unicode_test
