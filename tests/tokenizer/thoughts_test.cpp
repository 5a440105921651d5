#include "tokenizer/thoughts.h"

#include <gmock/gmock.h>

#include "tokenizer/tiny_tokenizer.h"

namespace lacuna::thoughts_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr TokenId kBegin = 300, kEnd = 301;

Tokenizer tokenizer_with_channels() {
  nlohmann::json tiny = tiny_tokenizer();
  add_token(tiny, kBegin, "<|channel>", true);
  add_token(tiny, kEnd, "<channel|>", true);
  return parse(tiny);
}

TEST(ThoughtFilter, LeavesOutWhatChannelTokensEnclose) {
  const Tokenizer tokenizer = tokenizer_with_channels();
  EXPECT_THAT(ThoughtFilter(&tokenizer).remove(std::vector<TokenId>{kBegin, 1, 2, kEnd, 3, kBegin, kEnd, 4}),
              ElementsAre(3, 4));
  EXPECT_THAT(ThoughtFilter(&tokenizer).remove(std::vector<TokenId>{1, kEnd, 2}), ElementsAre(1, kEnd, 2))
      << "a token that ends no thought";
}

TEST(ThoughtFilter, GivesTheSameHoweverTokensArrive) {
  const Tokenizer tokenizer = tokenizer_with_channels();
  ThoughtFilter filter(&tokenizer);
  EXPECT_THAT(filter.remove(std::vector<TokenId>{1, kBegin}), ElementsAre(1));
  EXPECT_TRUE(filter.is_in_thought());
  EXPECT_THAT(filter.remove(std::vector<TokenId>{2, kBegin, 3}), IsEmpty());
  EXPECT_THAT(filter.remove(std::vector<TokenId>{kEnd}), IsEmpty());
  EXPECT_FALSE(filter.is_in_thought());
  EXPECT_THAT(filter.remove(std::vector<TokenId>{4}), ElementsAre(4));
}

TEST(ThoughtFilter, LeavesEverythingWithoutThoseTokens) {
  const Tokenizer tokenizer = parse(tiny_tokenizer());
  EXPECT_THAT(ThoughtFilter(&tokenizer).remove(std::vector<TokenId>{1, 2}), ElementsAre(1, 2));
  EXPECT_THAT(ThoughtFilter(nullptr).remove(std::vector<TokenId>{1, 2}), ElementsAre(1, 2));
}

}  // namespace
}  // namespace lacuna::thoughts_test
