#include "engine/stop.h"

#include <gmock/gmock.h>

#include <optional>
#include <string>
#include <vector>

#include "tokenizer/tiny_tokenizer.h"

namespace lacuna::stop_test {
namespace {

using testing::Optional;

/// "ab" is 256, "cab" is 257, the special "<e>" is 258.
Tokenizer tokenizer_with_merges() {
  nlohmann::json json = tiny_tokenizer({{"a", "b"}, {"c", "ab"}});
  add_token(json, 258, "<e>", true);
  return parse(json);
}

TEST(BeforeStop, EndsBeforeTheEarliestOfTheTexts) {
  EXPECT_EQ(before_stop("one two three", {"three", "two"}), "one ");
  EXPECT_EQ(before_stop("one two three", {"two", "three"}), "one ");
  EXPECT_EQ(before_stop("aaab", {"aab"}), "a");
  EXPECT_EQ(before_stop("stop", {"stop"}), "");
}

TEST(BeforeStop, TakesTheTextThatIsWholeFirst) {
  EXPECT_EQ(before_stop("say hello", {"hello", "ell"}), "say h");
  EXPECT_EQ(before_stop("say hello", {"ell", "hello"}), "say h");
  EXPECT_EQ(before_stop("say hello", {"llo", "hello"}),
            "say ");  // both end here, the longer one begins first
  EXPECT_EQ(before_stop("say hello", {"", "llo"}), "say he");
}

TEST(BeforeStop, LeavesATextWithoutAnyOfThemWhole) {
  EXPECT_EQ(before_stop("one two", {"Two", "one two "}), "one two");
  EXPECT_EQ(before_stop("one two", {}), "one two");
  EXPECT_EQ(before_stop("", {"x"}), "");
}

TEST(StopFinder, IsEmptyWithoutTexts) {
  const Tokenizer tokenizer = tokenizer_with_merges();
  EXPECT_FALSE(make_stop_finder(tokenizer, {}));
  EXPECT_FALSE(make_stop_finder(tokenizer, {"", ""}));
  EXPECT_TRUE(make_stop_finder(tokenizer, {"", "x"}));
}

TEST(StopFinder, CountsTheTokensUntilATextIsWhole) {
  const Tokenizer tokenizer = tokenizer_with_merges();
  const StopFinder find = make_stop_finder(tokenizer, {"lo w"});
  EXPECT_THAT(find(ids_of_bytes("hello world")), Optional(7));
  EXPECT_THAT(find(ids_of_bytes("lo w")), Optional(4));
  EXPECT_EQ(find(ids_of_bytes("hello ")), std::nullopt);
  EXPECT_EQ(find({}), std::nullopt);
}

TEST(StopFinder, TakesTheTextThatIsWholeFirst) {
  const Tokenizer tokenizer = tokenizer_with_merges();
  // "ell" begins later than "hello" and is complete before it.
  EXPECT_THAT(make_stop_finder(tokenizer, {"hello", "ell"})(ids_of_bytes("hello")), Optional(4));
  EXPECT_THAT(make_stop_finder(tokenizer, {"ell", "", "hello"})(ids_of_bytes("hello")), Optional(4));
}

TEST(StopFinder, FindsATextThatBeginsOrEndsInsideAToken) {
  const Tokenizer tokenizer = tokenizer_with_merges();
  const StopFinder find = make_stop_finder(tokenizer, {"bca"});
  const std::vector<TokenId> inside = {'x', 256, 257, 'y'};  // x ab cab y
  EXPECT_THAT(find(inside), Optional(3));
  const std::vector<TokenId> none = {256, 256};
  EXPECT_EQ(find(none), std::nullopt);
}

TEST(StopFinder, ReadsTextsOfSeveralBytesPerCharacter) {
  const Tokenizer tokenizer = tokenizer_with_merges();
  const StopFinder find = make_stop_finder(tokenizer, {"\u00e9"});
  EXPECT_THAT(find(ids_of_bytes("caf\u00e9s")), Optional(5));
  EXPECT_EQ(find(ids_of_bytes("caf\xc3")), std::nullopt);
}

TEST(StopFinder, DoesNotSeeSpecialTokens) {
  const Tokenizer tokenizer = tokenizer_with_merges();
  const std::vector<TokenId> tokens = {'x', 258, 'y'};
  EXPECT_EQ(make_stop_finder(tokenizer, {"<e>"})(tokens), std::nullopt);
  EXPECT_THAT(make_stop_finder(tokenizer, {"xy"})(tokens), Optional(3));
}

}  // namespace
}  // namespace lacuna::stop_test
