#include "decode/token_alignment.h"

#include <gmock/gmock.h>

#include <optional>
#include <vector>

namespace lacuna::token_alignment_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// 98 and 99 end an answer for the main model, 50 for the guide.
const SharedVocabulary::Side kMain{100, 99, {98, 99}};
const SharedVocabulary::Side kGuide{97, 50, {50}};

std::optional<TokenId> written(const SharedVocabulary& alignment, TokenId guide_token) {
  return alignment.write({}, {}, 0, guide_token);
}

TEST(SharedVocabulary, ReadsTokensOneForOne) {
  const SharedVocabulary alignment(kMain, kGuide);
  const GuideReading reading = alignment.read(std::vector<TokenId>{7, 96, 0});
  EXPECT_THAT(reading.tokens, ElementsAre(7, 96, 0));
  EXPECT_THAT(reading.guide_ends, ElementsAre(1, 2, 3));
  EXPECT_THAT(reading.answer_ends, ElementsAre(1, 2, 3));
  EXPECT_THAT(alignment.read({}).tokens, IsEmpty());
}

TEST(SharedVocabulary, ReadsEveryEndTokenAsTheGuides) {
  const SharedVocabulary alignment(kMain, kGuide);
  EXPECT_THAT(alignment.read(std::vector<TokenId>{98, 7, 99}).tokens, ElementsAre(50, 7, 50));
}

TEST(SharedVocabulary, WritesTheGuidesTokensAsTheyAre) {
  const SharedVocabulary alignment(kMain, kGuide);
  EXPECT_EQ(written(alignment, 7), 7);
  EXPECT_EQ(written(alignment, 96), 96);
}

TEST(SharedVocabulary, WritesTheGuidesEndTokenAsTheMainModels) {
  EXPECT_EQ(written(SharedVocabulary(kMain, kGuide), 50), 99);
}

TEST(SharedVocabulary, AnEndTokenThatIsOneForBothStaysItself) {
  const SharedVocabulary alignment({100, 99, {98, 99}}, {100, 99, {98, 99}});
  EXPECT_THAT(alignment.read(std::vector<TokenId>{98, 99}).tokens, ElementsAre(98, 99));
  EXPECT_EQ(written(alignment, 98), 98);
  EXPECT_EQ(written(alignment, 99), 99);
}

TEST(SharedVocabulary, CannotWriteWhatTheMainModelLacks) {
  const SharedVocabulary shorter({60, 59, {59}}, {97, 50, {50}});
  EXPECT_EQ(written(shorter, 59), 59);
  EXPECT_EQ(written(shorter, 60), std::nullopt);
  EXPECT_EQ(written(shorter, 96), std::nullopt);
  const SharedVocabulary endless({100, -1, {}}, kGuide);
  EXPECT_EQ(written(endless, 50), std::nullopt);  // the main model has no end token
}

TEST(SharedVocabulary, TokensBeyondTheGuidesVocabularyAreUnreadableUnlessTheyEnd) {
  EXPECT_THAT(SharedVocabulary(kMain, kGuide).unreadable(), ElementsAre(97));
  EXPECT_THAT(SharedVocabulary({100, 99, {99}}, kGuide).unreadable(), ElementsAre(97, 98));
  EXPECT_THAT(SharedVocabulary({90, 89, {89}}, kGuide).unreadable(), IsEmpty());
}

TEST(SharedVocabulary, AnEndTokenBeyondAGuideThatHasNoneIsUnreadable) {
  const SharedVocabulary alignment({10, 9, {9}}, {8, -1, {}});
  EXPECT_THAT(alignment.unreadable(), testing::ElementsAre(8, 9));
}

}  // namespace
}  // namespace lacuna::token_alignment_test
