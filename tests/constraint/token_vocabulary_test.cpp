#include "constraint/token_vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"

namespace lacuna::token_vocabulary_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(TokenVocabulary, SpellsEveryTokenOnceFromItsRoot) {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    TokenTable table;
    std::map<TokenId, std::string> expected;
    for (TokenId id = 0; id < 40; ++id) {
      std::string bytes;
      for (size_t length = random() % 5; length > 0; --length) bytes += "ab\xFF"[random() % 3];
      if (!bytes.empty()) expected[id] = bytes;
      table.bytes.push_back(bytes);
    }
    table.end_ids = {3};
    table.excluded = {4};
    table.specials = {5};
    for (const TokenId id : {3, 4, 5}) expected.erase(id);

    const TokenVocabulary vocabulary(table);
    std::map<TokenId, std::string> spelled;
    std::string path;
    for (size_t i = 0; i < vocabulary.nodes().size(); ++i) {
      const auto& node = vocabulary.nodes()[i];
      ASSERT_GE(node.depth, 1);
      path.resize(node.depth - 1U);
      path += static_cast<char>(node.byte);
      for (const TokenId token : vocabulary.tokens_at(i)) EXPECT_TRUE(spelled.emplace(token, path).second);
      // The nodes below are those up to the next one that is not deeper.
      size_t end = i + 1;
      while (end < vocabulary.nodes().size() && vocabulary.nodes()[end].depth > node.depth) ++end;
      EXPECT_EQ(node.end, end);
    }
    EXPECT_EQ(spelled, expected);
  }
}

TEST(TokenVocabulary, RefusesTablesThatCannotEndOrNameWhatIsNotThere) {
  const auto refusal = [](const TokenTable& table, const std::string& message) {
    EXPECT_THAT([&] { TokenVocabulary{table}; }, ThrowsMessage<InputError>(HasSubstr(message)));
  };
  refusal({.bytes = {"a"}, .end_ids = {}, .excluded = {}, .specials = {}}, "no end token");
  refusal({.bytes = {"a"}, .end_ids = {1}, .excluded = {}, .specials = {}},
          "end token 1 is outside the vocabulary of 1");
  refusal({.bytes = {"a"}, .end_ids = {0}, .excluded = {-1}, .specials = {}}, "excluded token -1");
  refusal({.bytes = {"a"}, .end_ids = {0}, .excluded = {}, .specials = {7}}, "special token 7");
  refusal({.bytes = {"a"}, .end_ids = {0}, .excluded = {}, .specials = std::vector<TokenId>(17, 0)},
          "at most 16");
  refusal({.bytes = {std::string(70'000, 'a'), ""}, .end_ids = {1}, .excluded = {}, .specials = {}},
          "token 0 has 70000 bytes");
}

}  // namespace
}  // namespace lacuna::token_vocabulary_test
