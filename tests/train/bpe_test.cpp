#include "train/bpe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/number_question.h"
#include "tasks/word_problems.h"
#include "tokenizer/tokenizer.h"
#include "train/data.h"

namespace lacuna::train::bpe_test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

TEST(LearnBpe, MergesTheMostFrequentPairFirst) {
  const Bpe bpe = learn_bpe({"abab abc", "xbc"}, 258);
  // Pieces: "abab", " abc", "xbc". ab occurs three times, bc twice; then abab is the first of the pairs seen
  // once.
  ASSERT_EQ(bpe.vocabulary.size(), 258U);
  EXPECT_EQ(bpe.vocabulary[256], "ab");
  EXPECT_EQ(bpe.merges[0], (std::pair<int32_t, int32_t>{'a', 'b'}));
}

TEST(LearnBpe, StopsWhenEveryPieceIsOneToken) {
  const Bpe bpe = learn_bpe({"ab 12"}, 1000);
  EXPECT_THAT(std::vector<std::string>(bpe.vocabulary.begin() + 256, bpe.vocabulary.end()),
              ElementsAre("12", "ab"));
}

TEST(LearnBpe, NeverJoinsANumberWithItsNeighbours) {
  const Bpe bpe = learn_bpe({"12+7=19. 12+7=19."}, 1000);
  for (size_t id = 256; id < bpe.vocabulary.size(); ++id) {
    const std::string& token = bpe.vocabulary[id];
    const bool digits = token.find_first_of("0123456789") != std::string::npos;
    if (digits) {
      EXPECT_EQ(token.find_first_not_of("0123456789"), std::string::npos) << token;
    }
  }
}

TEST(TokenizerJson, MakesOneTokenOfEachWordAndNumberOfTheTasks) {
  const Bpe bpe = learn_bpe(vocabulary_corpus(), 2048);
  EXPECT_LT(bpe.vocabulary.size(), 2048U);
  const Tokenizer tokenizer = Tokenizer::from_json(tokenizer_json(bpe).dump(), "learned");
  EXPECT_EQ(tokenizer.size(), bpe.total_size());
  EXPECT_EQ(tokenizer.id_of(bpe.form->special_tokens.back()), bpe.mask_id());
  EXPECT_EQ(tokenizer.id_of(kEndToken), bpe.end_id());

  const auto pieces = [&](std::string_view text) {
    std::vector<std::string> out;
    for (const TokenId id : tokenizer.encode(text)) out.push_back(tokenizer.decode(std::vector{id}));
    return out;
  };
  EXPECT_THAT(pieces("12+7=19. 19"), ElementsAre("12", "+", "7", "=", "19", ".", " ", "19"));
  EXPECT_THAT(pieces("Mia has 12 shells."), ElementsAre("Mia", " has", " ", "12", " shells", "."));
  for (int number = 0; number <= kMaxNumber; ++number)
    EXPECT_EQ(tokenizer.encode(std::to_string(number)).size(), 1U);
}

TEST(VocabularyCorpus, HasTheWordsAndNumbersOfQuestionsInTheWideVocabularyAlone) {
  const auto has = [](const std::vector<std::string>& texts, std::string_view word) {
    return std::any_of(texts.begin(), texts.end(),
                       [&](const std::string& text) { return text.find(word) != std::string::npos; });
  };
  EXPECT_FALSE(has(vocabulary_corpus(), "thermometer"));
  const std::vector<std::string> wide = vocabulary_corpus(VocabularyKind::kWide);
  EXPECT_TRUE(has(wide, "thermometer"));
  for (int number = 0; number <= kMaxAnswer; ++number) EXPECT_THAT(wide, Contains(std::to_string(number)));
}

TEST(TokenizerJson, GivesAnyBytesBack) {
  const Tokenizer tokenizer =
      Tokenizer::from_json(tokenizer_json(learn_bpe({"ab ab"}, 300)).dump(), "learned");
  for (const std::string text : {"Grüße, 東京!\n\t 007", "<|endoftext|>", "\xff\x80"}) {
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
}

}  // namespace
}  // namespace lacuna::train::bpe_test
