#include "engine/guide.h"

#include <gmock/gmock.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tokenizer/tiny_tokenizer.h"

namespace lacuna::guide_test {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

using Merges = std::vector<std::pair<std::string, std::string>>;

ModelConfig config_of(int64_t vocab_size, std::vector<TokenId> end_ids) {
  ModelConfig config;
  config.vocab_size = vocab_size;
  config.eos_id = end_ids.empty() ? -1 : end_ids.front();
  config.end_ids = std::move(end_ids);
  return config;
}

/// A tokenizer with its model's config.
struct Side {
  Side(const Merges& merges, int64_t vocab_size, std::vector<TokenId> end_ids)
      : Side(tiny_tokenizer(merges), vocab_size, std::move(end_ids)) {}
  Side(const nlohmann::json& json, int64_t vocab_size, std::vector<TokenId> end_ids)
      : tokenizer(parse(json)), config(config_of(vocab_size, std::move(end_ids))) {}

  TextModel text() const { return {config, &tokenizer}; }

  Tokenizer tokenizer;
  ModelConfig config;
};

// The main model: 256 is "ab", 257 is "cd"; 300 and 301 end an answer. The guide: 256 is "bc"; 400 ends.
const Merges kMainMerges = {{"a", "b"}, {"c", "d"}};
const Merges kGuideMerges = {{"b", "c"}};
constexpr TokenId kAb = 256;
constexpr TokenId kCd = 257;
constexpr TokenId kBc = 256;

class ByteAlignmentTest : public testing::Test {
 protected:
  GuideReading read(const std::vector<TokenId>& answer) const { return alignment.read(answer); }

  /// The token that is written for the guide's token after the first num_read tokens of the reading of
  /// `answer`, of which the first num_standing are accepted.
  std::optional<TokenId> written(const std::vector<TokenId>& answer, size_t num_standing, size_t num_read,
                                 TokenId guide_token) const {
    return alignment.write(std::span(answer).first(num_standing), alignment.read(answer), num_read,
                           guide_token);
  }

  Side main{kMainMerges, 302, {300, 301}};
  Side guide{kGuideMerges, 401, {400}};
  ByteAlignment alignment{main.text(), guide.text()};
};

TEST_F(ByteAlignmentTest, CutsTheTextAnewAndCountsBytes) {
  const GuideReading reading = read({kAb, 'c', 'd', kCd});
  EXPECT_THAT(reading.tokens, ElementsAre('a', kBc, 'd', 'c', 'd'));
  EXPECT_THAT(reading.guide_ends, ElementsAre(1, 3, 4, 5, 6));
  EXPECT_THAT(reading.answer_ends, ElementsAre(2, 3, 4, 6));
}

TEST_F(ByteAlignmentTest, ReadsNothingFromNothing) {
  const GuideReading reading = read({});
  EXPECT_THAT(reading.tokens, IsEmpty());
  EXPECT_THAT(reading.guide_ends, IsEmpty());
  EXPECT_THAT(reading.answer_ends, IsEmpty());
}

TEST_F(ByteAlignmentTest, ATokenOfTheGuideMaySpanTokensOfTheAnswer) {
  const GuideReading reading = read({'b', 'c'});
  EXPECT_THAT(reading.tokens, ElementsAre(kBc));
  EXPECT_THAT(reading.guide_ends, ElementsAre(2));
  EXPECT_THAT(reading.answer_ends, ElementsAre(1, 2));
}

TEST_F(ByteAlignmentTest, EndTokensCutTheTextAndStandForTheGuides) {
  const GuideReading reading = read({'b', 300, 'c', 301, kAb});
  EXPECT_THAT(reading.tokens, ElementsAre('b', 400, 'c', 400, 'a', 'b'));
  EXPECT_THAT(reading.guide_ends, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(reading.answer_ends, ElementsAre(1, 2, 3, 4, 6));
}

TEST_F(ByteAlignmentTest, AnAnswerMayBeginAndEndWithEndTokens) {
  const GuideReading reading = read({300, 300});
  EXPECT_THAT(reading.tokens, ElementsAre(400, 400));
  EXPECT_THAT(reading.guide_ends, ElementsAre(1, 2));
  EXPECT_THAT(reading.answer_ends, ElementsAre(1, 2));
}

TEST_F(ByteAlignmentTest, ACharacterMayBeCutInTwo) {
  // U+00E9 is C3 A9; here the guide has it whole.
  const Side whole(Merges{{to_byte_characters("\xC3"), to_byte_characters("\xA9")}}, 401, {400});
  const ByteAlignment cut(main.text(), whole.text());
  const GuideReading half = cut.read(std::vector<TokenId>{'x', 0xC3});
  EXPECT_THAT(half.tokens, ElementsAre('x', 0xC3));
  EXPECT_THAT(half.guide_ends, ElementsAre(1, 2));
  const GuideReading both = cut.read(std::vector<TokenId>{'x', 0xC3, 0xA9});
  EXPECT_THAT(both.tokens, ElementsAre('x', 256));
  EXPECT_THAT(both.guide_ends, ElementsAre(1, 3));
  EXPECT_THAT(both.answer_ends, ElementsAre(1, 2, 3));
  const GuideReading broken = cut.read(std::vector<TokenId>{0xC3, 300, 0xA9});
  EXPECT_THAT(broken.tokens, ElementsAre(0xC3, 400, 0xA9));
}

TEST_F(ByteAlignmentTest, TheAnswersTextNeverImitatesASpecialToken) {
  nlohmann::json json = tiny_tokenizer(kGuideMerges);
  add_token(json, 400, "<e>", true);
  const Side special(json, 401, {400});
  const ByteAlignment imitated(main.text(), special.text());
  EXPECT_THAT(imitated.read(ids_of_bytes("<e>")).tokens, ElementsAre('<', 'e', '>'));
}

TEST_F(ByteAlignmentTest, ANormalisedTextStillEndsWhereTheAnswerEnds) {
  // "e" and U+0301, three bytes, are one character of two bytes for the guide.
  nlohmann::json json = tiny_tokenizer({{to_byte_characters("\xC3"), to_byte_characters("\xA9")}});
  json["normalizer"] = {{"type", "NFC"}};
  const Side normalising(json, 401, {400});
  const ByteAlignment normalised(main.text(), normalising.text());
  const GuideReading reading = normalised.read(std::vector<TokenId>{'x', 300, 'e', 0xCC, 0x81, 300, 'y'});
  EXPECT_THAT(reading.tokens, ElementsAre('x', 400, 256, 400, 'y'));
  EXPECT_THAT(reading.guide_ends, ElementsAre(1, 2, 5, 6, 7));
  EXPECT_THAT(reading.answer_ends, ElementsAre(1, 2, 3, 4, 5, 6, 7));
}

TEST_F(ByteAlignmentTest, WritesTheGuidesTokenAfterWhatItRead) {
  // "abcd": the guide reads "a", "bc", "d".
  const std::vector<TokenId> answer = {kAb, 'c', 'd'};
  EXPECT_EQ(written(answer, 0, 0, 'x'), 'x');
  EXPECT_EQ(written(answer, 0, 0, kBc), 'b');  // "bc": its first token
  EXPECT_EQ(written(answer, 0, 1, 'b'), kAb);  // "a", read and not yet standing, then "b"
  EXPECT_EQ(written(answer, 0, 1, 'x'), 'a');  // "ax"
  EXPECT_EQ(written(answer, 2, 2, 'd'), 'd');  // all tokens of the reading are accepted
  EXPECT_EQ(written(answer, 2, 2, 'x'), 'x');
}

TEST_F(ByteAlignmentTest, LeavesOutTheBytesOfAReadTokenThatStandAlready) {
  // "bcd": the guide reads "bc", whose "b" alone is accepted where the answer continues with "cd".
  const std::vector<TokenId> answer = {'b', kCd};
  EXPECT_EQ(written(answer, 1, 1, 'd'), kCd);
  EXPECT_EQ(written(answer, 1, 1, 'x'), 'c');
}

TEST_F(ByteAlignmentTest, WritesTheGuidesEndTokenAsTheMainModels) {
  const std::vector<TokenId> answer = {kAb, 'c'};
  EXPECT_EQ(written(answer, 0, 0, 400), 300);
  EXPECT_EQ(written(answer, 2, 2, 400), 300);
  EXPECT_EQ(written(answer, 0, 1, 400), 'a');  // tokens read before the end come first
}

TEST_F(ByteAlignmentTest, WritesNothingWhereNothingCanBeSaid) {
  EXPECT_EQ(written({'a'}, 0, 0, 350), std::nullopt);  // a dead row of the guide
  const Side endless(kMainMerges, 302, {});
  const ByteAlignment without(endless.text(), guide.text());
  EXPECT_EQ(without.write({}, {}, 0, 400), std::nullopt);
}

TEST_F(ByteAlignmentTest, SpecialTokensAndDeadRowsAreUnreadableUnlessTheyEnd) {
  nlohmann::json json = tiny_tokenizer(kMainMerges);
  add_token(json, 258, "<mask>", true);
  add_token(json, 259, "<end>", true);
  add_token(json, 260, "<plain>", false);
  const Side special(json, 263, {259, 262});
  EXPECT_THAT(ByteAlignment(special.text(), guide.text()).unreadable(), ElementsAre(258, 261));
}

// Which of the two readings a pair gets

TEST(Guide, SharesAVocabularyWhereBothNumberTheirTokensAlike) {
  const Side main(kMainMerges, 258, {257});
  const Side same(kMainMerges, 300, {256});
  EXPECT_TRUE(Guide(main.text(), same.text()).shares_vocabulary());
  const Side longer(Merges{{"a", "b"}, {"c", "d"}, {"e", "f"}}, 259, {});
  EXPECT_TRUE(Guide(main.text(), longer.text()).shares_vocabulary());
  EXPECT_TRUE(Guide(longer.text(), main.text()).shares_vocabulary());
  const Side other(Merges{{"c", "d"}, {"a", "b"}}, 258, {});
  EXPECT_FALSE(Guide(main.text(), other.text()).shares_vocabulary());
}

TEST(Guide, SpecialTokensMayDiffer) {
  nlohmann::json json = tiny_tokenizer(kMainMerges);
  add_token(json, 258, "<mask>", true);
  const Side main(json, 259, {});
  json = tiny_tokenizer(kMainMerges);
  add_token(json, 258, "<pad>", true);
  EXPECT_TRUE(Guide(main.text(), Side(json, 259, {}).text()).shares_vocabulary());
  const Side words(Merges{{"a", "b"}, {"c", "d"}, {"e", "f"}}, 259, {});
  EXPECT_TRUE(Guide(main.text(), words.text()).shares_vocabulary());
}

TEST(Guide, ASharedVocabularyPassesThePromptOnAsItIs) {
  const Side main(kMainMerges, 258, {257});
  const Side same(kMainMerges, 300, {256});
  const Guide guide(main.text(), same.text());
  const std::vector<TokenId> prompt = {'a', 'b', kAb};  // "ab" cut in two, which no tokenizer would do
  const std::vector<Message> messages = {{"user", "other text"}};
  const GuideContext context = guide.context(prompt, messages);
  EXPECT_THAT(context.prompt, ElementsAreArray(prompt));
  EXPECT_EQ(context.config, &same.config);
  EXPECT_THAT(context.alignment->read(std::vector<TokenId>{'a', 257}).tokens, ElementsAre('a', 256));
}

TEST(Guide, APromptWithSpecialTokensThatAreOthersForTheGuideIsRenderedInItsOwnTemplate) {
  nlohmann::json json = tiny_tokenizer(kMainMerges);
  add_token(json, 258, "<start_header>", true);
  add_token(json, 259, "<end_header>", true);
  const Side main(json, 260, {});
  json = tiny_tokenizer(kMainMerges);
  add_token(json, 258, "<|im_start|>", true);
  add_token(json, 259, "<|im_end|>", true);
  const Side other(json, 260, {});
  TextModel text = other.text();
  text.chat_template = ChatTemplate::built_in("chatml").value();
  const Guide guide(main.text(), text);
  ASSERT_TRUE(guide.shares_vocabulary());
  const std::vector<Message> messages = {{"user", "ab"}};
  std::vector<TokenId> expected = {258};
  for (const TokenId id : ids_of_bytes("user\n")) expected.push_back(id);
  for (const TokenId id : {kAb, TokenId{259}, TokenId{'\n'}, TokenId{258}}) expected.push_back(id);
  for (const TokenId id : ids_of_bytes("assistant\n")) expected.push_back(id);
  EXPECT_EQ(guide.context(std::vector<TokenId>{258, 'u', 259, kAb}, messages).prompt, expected);
  EXPECT_THAT(guide.context(std::vector<TokenId>{258, 'u', 259, kAb}).prompt, ElementsAre('u', kAb));
  EXPECT_THAT(guide.context(std::vector<TokenId>{'u', 'a', 'b'}, messages).prompt,
              ElementsAre('u', 'a', 'b'));
}

TEST(Guide, AnotherVocabularyReadsThePromptsText) {
  const Side main(kMainMerges, 302, {300});
  const Side other(kGuideMerges, 401, {400});
  const Guide guide(main.text(), other.text());
  const GuideContext context = guide.context(std::vector<TokenId>{kAb, kCd});
  EXPECT_THAT(context.prompt, ElementsAre('a', kBc, 'd'));
  EXPECT_THAT(context.alignment->read(std::vector<TokenId>{kAb, 'c', 300}).tokens,
              ElementsAre('a', kBc, 400));
}

TEST(Guide, AnotherVocabularyRendersMessagesInTheGuidesOwnTemplate) {
  nlohmann::json json = tiny_tokenizer(kGuideMerges);
  add_token(json, 398, "<|im_start|>", true);
  add_token(json, 399, "<|im_end|>", true);
  const Side main(kMainMerges, 302, {300});
  const Side other(json, 401, {400});
  TextModel text = other.text();
  text.chat_template = ChatTemplate::built_in("chatml").value();
  const std::vector<Message> messages = {{"user", "abcd"}};
  const GuideContext context = Guide(main.text(), text).context(std::vector<TokenId>{'z'}, messages);
  std::vector<TokenId> expected = {398};
  for (const TokenId id : ids_of_bytes("user\na")) expected.push_back(id);
  for (const TokenId id : {kBc, TokenId{'d'}, TokenId{399}, TokenId{'\n'}, TokenId{398}})
    expected.push_back(id);
  for (const TokenId id : ids_of_bytes("assistant\n")) expected.push_back(id);
  EXPECT_EQ(context.prompt, expected);
}

TEST(Guide, ModelsWithoutTokenizersAreTakenToShareTheirIds) {
  const ModelConfig main = config_of(98, {89});
  const ModelConfig smaller = config_of(97, {88});
  const Guide guide({main}, {smaller});
  EXPECT_TRUE(guide.shares_vocabulary());
  const GuideContext context = guide.context(std::vector<TokenId>{1, 2});
  EXPECT_THAT(context.prompt, ElementsAre(1, 2));
  EXPECT_THAT(context.alignment->read(std::vector<TokenId>{89, 3}).tokens, ElementsAre(88, 3));
  EXPECT_THAT(context.alignment->unreadable(), ElementsAre(97));
}

TEST(Guide, OneTokenizerIsTooFew) {
  const Side with(kMainMerges, 258, {});
  const ModelConfig without = config_of(258, {});
  const auto refusal = ThrowsMessage<InputError>(HasSubstr("expected both or neither"));
  EXPECT_THAT([&] { Guide(with.text(), {without}); }, refusal);
  EXPECT_THAT([&] { Guide({without}, with.text()); }, refusal);
}

TEST(ByteAlignment, ASpecialTokenOfTheGuideHasNoText) {
  nlohmann::json json = tiny_tokenizer({{"b", "c"}});
  add_token(json, 399, "<|im_start|>", true);
  const Tokenizer guide_tokenizer = parse(json);
  const Tokenizer main_tokenizer = parse(tiny_tokenizer({{"a", "b"}}));
  const ModelConfig guide = config_of(401, {400});
  const ModelConfig main = config_of(300, {299});
  const ByteAlignment alignment({main, &main_tokenizer}, {guide, &guide_tokenizer});
  EXPECT_EQ(alignment.write({}, {}, 0, 399), std::nullopt);
}

}  // namespace
}  // namespace lacuna::guide_test
