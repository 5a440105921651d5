#include "model/token_files.h"

#include <gmock/gmock.h>

#include <string>

#include "base/error.h"
#include "model/config.h"

namespace lacuna::token_files_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

std::vector<std::string> listed(std::string_view text) {
  std::vector<std::string> tokens;
  for (const ListedToken& token : read_added_tokens(text, "tokenizer.json"))
    tokens.push_back(token.text + " " + std::to_string(token.id));
  return tokens;
}

TEST(ReadAddedTokens, TakesTheOutermostListAlone) {
  EXPECT_THAT(listed(R"({"version": "1", "model": {"added_tokens": [{"id": 1, "content": "no"}]},
      "added_tokens": [{"id": 7, "content": "<|mask|>", "special": true, "x": {"id": 9, "content": "no"}},
                       {"content": "late", "id": 8}, {"id": "3", "content": "text"}, {"id": -2, "content": "low"}],
      "normalizer": null})"),
              ElementsAre("<|mask|> 7", "late 8", "text -1", "low -2"));
  EXPECT_THAT(listed("{}"), IsEmpty());
  EXPECT_THAT(listed(R"({"added_tokens": {"id": 5}})"), IsEmpty());
  EXPECT_THAT(listed(R"([{"added_tokens": [{"id": 5}]}])"), IsEmpty());
}

TEST(ReadAddedTokens, ParsesNothingBehindTheList) {
  EXPECT_THAT(listed(R"({"added_tokens": [{"id": 7, "content": "<|mask|>"}], "model": here it ends)"),
              ElementsAre("<|mask|> 7"));
  EXPECT_THAT([] { listed(R"({"added_tokens": [{"id": 7)"); },
              ThrowsMessage<InputError>(HasSubstr("tokenizer.json: is not valid JSON")));
}

TEST(TokenFiles, AreAskedInOrder) {
  const ConfigTexts texts{
      .config = {},
      .tokenizer_config = R"({"added_tokens_decoder": {"5": {"content": "<|mask|>"}, "x": {"content": "bad"}},
                              "mask_token": "<|mask|>", "eos_token": {"content": "</s>"}, "pad_token": null})",
      .tokenizer = R"({"added_tokens": [{"id": 5, "content": "<|mask|>"}]})",
      .special_tokens_map = R"({"mask_token": {"content": "[MASK]"}})",
      .added_tokens = R"({"<|mask|>": 5, "<|other|>": "6"})"};
  const TokenFiles files(texts, "folder");
  std::vector<std::string> names;
  for (const TokenList& list : files.lists()) names.push_back(list.file);
  EXPECT_THAT(names, ElementsAre("folder/tokenizer.json", "folder/tokenizer_config.json",
                                 "folder/added_tokens.json"));
  EXPECT_EQ(files.lists()[1].tokens[1].id, -1);
  EXPECT_EQ(files.lists()[2].tokens[1].id, -1);
  EXPECT_THAT(files.texts_of("mask_token"), ElementsAre("<|mask|>", "[MASK]"));
  EXPECT_THAT(files.texts_of("eos_token"), ElementsAre("</s>"));
  EXPECT_THAT(files.texts_of("pad_token"), IsEmpty());
}

std::optional<TokenClaim> find(std::vector<TokenClaim> claims, const ConfigTexts& texts) {
  const std::vector<std::string> masks = {"<|MASK|>", "<MASK>"};
  return find_token(std::move(claims), TokenFiles(texts, "folder"), masks, 100, "mask");
}

TEST(FindToken, TakesTheFirstSourceThatNamesIt) {
  const ConfigTexts texts{.config = {}, .tokenizer = R"({"added_tokens": [{"id": 7, "content": "<MASK>"}]})"};
  EXPECT_EQ(find({}, texts)->id, 7);
  EXPECT_EQ(find({}, texts)->source, "\"<MASK>\" in folder/tokenizer.json");
  EXPECT_EQ(find({{7, "config"}}, texts)->source, "config");
  EXPECT_FALSE(find({}, {}).has_value());
  const ConfigTexts both{
      .config = {},
      .tokenizer = R"({"added_tokens": [{"id": 8, "content": "<MASK>"}, {"id": 7, "content": "<|MASK|>"}]})"};
  EXPECT_EQ(find({}, both)->id, 7) << "the earlier text";
  EXPECT_EQ(find({{8, "config"}}, both)->id, 8) << "which is a mask as well";
}

TEST(FindToken, RefusesSourcesThatDisagree) {
  const ConfigTexts texts{.config = {},
                          .tokenizer_config = R"({"added_tokens_decoder": {"9": {"content": "<|MASK|>"}}})",
                          .tokenizer = R"({"added_tokens": [{"id": 7, "content": "<MASK>"}]})"};
  EXPECT_THAT(
      [&] { find({}, texts); },
      ThrowsMessage<InputError>(AllOf(HasSubstr("mask token is 7 by \"<MASK>\" in folder/tokenizer.json"),
                                      HasSubstr("9 by \"<|MASK|>\" in folder/tokenizer_config.json"))));
  EXPECT_THAT(
      [&] {
        find({{7, "a"}, {8, "b"}}, {});
      },
      ThrowsMessage<InputError>(HasSubstr("7 by a and 8 by b")));
  const ConfigTexts far{.config = {}, .tokenizer = R"({"added_tokens": [{"id": 100, "content": "<MASK>"}]})"};
  EXPECT_THAT([&] { find({}, far); }, ThrowsMessage<InputError>(AllOf(HasSubstr("folder/tokenizer.json"),
                                                                      HasSubstr("from 0 to 99"))));
}

}  // namespace
}  // namespace lacuna::token_files_test
