#include "server/answer_text.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/rng.h"
#include "engine/stop.h"
#include "tokenizer/unicode.h"

namespace lacuna::answer_text_test {
namespace {

const Tokenizer& tokenizer() {
  static const Tokenizer loaded =
      Tokenizer::load(std::filesystem::path(LACUNA_SOURCE_DIR) / "models/mini-llada");
  return loaded;
}

/// One token for each byte, whatever the tokenizer would merge.
std::vector<TokenId> bytes_of(const std::string& text) {
  std::vector<TokenId> tokens;
  for (const char byte : text) {
    for (const TokenId token : tokenizer().encode(std::string(1, byte))) tokens.push_back(token);
  }
  return tokens;
}

/// The pieces of an answer that becomes final in steps of these sizes, the last one over and over.
std::vector<std::string> pieces(AnswerText& text, const std::vector<TokenId>& tokens, size_t step) {
  std::vector<std::string> result;
  for (size_t size = 0; size < tokens.size(); size += step) {
    result.push_back(text.advance(std::span(tokens).first(size), false));
  }
  result.push_back(text.advance(tokens, true));
  return result;
}

std::string joined(const std::vector<std::string>& pieces) {
  std::string text;
  for (const std::string& piece : pieces) text += piece;
  return text;
}

TEST(WholeCharacters, LeavesOutWhatIsCutOff) {
  EXPECT_EQ(whole_characters(""), 0U);
  EXPECT_EQ(whole_characters("ab"), 2U);
  EXPECT_EQ(whole_characters("a\xC3"), 1U);
  EXPECT_EQ(whole_characters("a\xC3\xA4"), 3U);
  EXPECT_EQ(whole_characters("\xE2\x82"), 0U);
  EXPECT_EQ(whole_characters("\xF0\x9F\x98"), 0U);
  EXPECT_EQ(whole_characters("\xF0\x9F\x98\x80"), 4U);
  EXPECT_EQ(whole_characters("a\x80\x80"), 3U);  // begins nowhere: it will not become whole
}

TEST(AnswerText, GivesWholeCharactersAlone) {
  const std::vector<TokenId> tokens = bytes_of("a\xE2\x82\xAC b\xF0\x9F\x98\x80");
  for (const size_t step : {1U, 2U, 3U, 100U}) {
    AnswerText text(&tokenizer(), {}, {});
    const std::vector<std::string> all = pieces(text, tokens, step);
    for (const std::string& piece : all) EXPECT_EQ(well_formed_prefix(piece), piece.size()) << step;
    EXPECT_EQ(joined(all), "a\xE2\x82\xAC b\xF0\x9F\x98\x80") << step;
    EXPECT_FALSE(text.has_ended());
  }
}

TEST(AnswerText, ReplacesWhatIsNoTextAlikeInPiecesAndAtOnce) {
  const std::string damaged = "a\x80\xE2\x82z\xF0\x9F\xC3";
  for (const size_t step : {1U, 2U, 100U}) {
    AnswerText text(&tokenizer(), {}, {});
    EXPECT_EQ(joined(pieces(text, bytes_of(damaged), step)), replace_ill_formed(damaged)) << step;
  }
}

TEST(AnswerText, EndsAtAnEndToken) {
  std::vector<TokenId> tokens = bytes_of("ab");
  tokens.push_back(7);
  for (const TokenId more : bytes_of("cd")) tokens.push_back(more);
  AnswerText text(&tokenizer(), {7}, {});
  EXPECT_EQ(text.advance(std::span(tokens).first(2), false), "ab");
  EXPECT_FALSE(text.has_ended());
  EXPECT_EQ(text.advance(std::span(tokens).first(4), false), "");
  EXPECT_TRUE(text.has_ended());
  EXPECT_EQ(text.advance(tokens, true), "");
  EXPECT_EQ(text.num_tokens(), 2);
}

TEST(AnswerText, HoldsBackWhatMayBecomeAStopText) {
  const std::vector<TokenId> tokens = bytes_of("one STOX two STOP three");
  AnswerText text(&tokenizer(), {}, {"STOP"});
  EXPECT_EQ(text.advance(std::span(tokens).first(7), false), "one ");  // "one STO"
  EXPECT_EQ(text.advance(std::span(tokens).first(8), false), "STOX");
  EXPECT_EQ(text.advance(std::span(tokens).first(17), false), " two ");
  EXPECT_TRUE(text.has_ended());
  EXPECT_EQ(text.advance(tokens, true), "");
}

TEST(AnswerText, IsTheSameHoweverManyTokensComeAtOnce) {
  const std::vector<std::string> stops = {"bab", "ab\n", "aaa", "\xC3\xA4\x62"};
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const RngStream random(seed);
    std::string bytes;
    const char* alphabet[] = {"a", "b", "\n", "\xC3\xA4", "\xC3", "a"};
    for (uint64_t i = 0; i < 14; ++i) bytes += alphabet[random.below(i, 6)];
    const std::vector<TokenId> tokens = bytes_of(bytes);
    AnswerText at_once(&tokenizer(), {}, stops);
    const std::string expected = joined(pieces(at_once, tokens, 100));
    for (const size_t step : {1U, 2U, 5U}) {
      AnswerText text(&tokenizer(), {}, stops);
      EXPECT_EQ(joined(pieces(text, tokens, step)), expected) << seed << ' ' << step;
    }
  }
}

TEST(AnswerText, CountsTokensThatHaveNoText) {
  const std::vector<TokenId> tokens = {5, 6, 7, 8};
  AnswerText text(nullptr, {7}, {});
  EXPECT_EQ(text.advance(tokens, true), "");
  EXPECT_EQ(text.num_tokens(), 2);
  EXPECT_TRUE(text.has_ended());
}

}  // namespace
}  // namespace lacuna::answer_text_test
