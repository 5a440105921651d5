#include "tokenizer/best_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "base/error.h"
#include "tokenizer/tiny_tokenizer.h"
#include "tokenizer/tokenizer_files.h"

namespace lacuna::best_path_test {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<TokenId> ids_of(const BestPath& path, std::string_view text) {
  std::vector<TokenId> ids;
  size_t end = 0;
  for (const BestPath::Part& part : path.cut(text)) {
    EXPECT_EQ(part.range.begin, end);
    end = part.range.end;
    ids.push_back(part.id);
  }
  EXPECT_EQ(end, text.size());
  return ids;
}

TEST(BestPath, HasTheLargestSumOfScores) {
  const BestPath path({{"a", 0, -1}, {"b", 1, -1}, {"ab", 2, -3}, {"abc", 3, -2.5}, {"c", 4, -1}}, -20);
  EXPECT_THAT(ids_of(path, "ab"), ElementsAre(0, 1));
  EXPECT_THAT(ids_of(path, "abc"), ElementsAre(3));
  EXPECT_THAT(ids_of(path, ""), ElementsAre());
  EXPECT_THAT(ids_of(path, "xéa日"), ElementsAre(BestPath::kUnknown, 0, BestPath::kUnknown));
}

TEST(BestPath, EndsWithTheLongestPartWhereSumsAreEqual) {
  const BestPath path({{"a", 0, -1}, {"aa", 1, -2}, {"aaa", 2, -3}}, -20);
  EXPECT_THAT(ids_of(path, "aaaa"), ElementsAre(0, 2));
}

/// The largest sum over all ways to cut a text.
double best_sum(const std::map<std::string, double>& scores, std::string_view text) {
  if (text.empty()) return 0;
  double best = -1e9;
  for (size_t bytes = 1; bytes <= text.size(); ++bytes) {
    const auto found = scores.find(std::string(text.substr(0, bytes)));
    if (found != scores.end()) best = std::max(best, found->second + best_sum(scores, text.substr(bytes)));
  }
  return best;
}

TEST(BestPath, IsTheBestOfAllWays) {
  std::mt19937 random(3);
  const auto score = [&] { return -static_cast<double>(random() % 1000) / 100; };
  for (int round = 0; round < 50; ++round) {
    std::map<std::string, double> scores = {{"a", score()}, {"b", score()}};
    for (int count = 0; count < 12; ++count) {
      std::string entry;
      for (size_t bytes = 2 + random() % 3; bytes > 0; --bytes) entry += random() % 2 == 0 ? 'a' : 'b';
      scores[entry] = score();
    }
    std::vector<BestPath::Entry> entries;
    std::vector<double> by_id;
    for (const auto& [text, value] : scores) {
      entries.push_back({text, static_cast<TokenId>(by_id.size()), value});
      by_id.push_back(value);
    }
    std::string text;
    for (size_t bytes = random() % 14; bytes > 0; --bytes) text += random() % 2 == 0 ? 'a' : 'b';
    double sum = 0;
    for (const TokenId id : ids_of(BestPath(entries, -20), text)) sum += by_id[static_cast<size_t>(id)];
    EXPECT_NEAR(sum, best_sum(scores, text), 1e-9) << text;
  }
}

/// The tokens <unk> and </s>, those of bytes where asked for, and some pieces with scores.
json tiny_unigram(bool has_bytes) {
  json vocab = json::array({json::array({"<unk>", 0.0}), json::array({"</s>", 0.0})});
  for (int byte = 0; byte < 256 && has_bytes; ++byte)
    vocab.push_back(json::array({byte_token(static_cast<unsigned char>(byte)), 0.0}));
  for (const auto& [text, score] : std::map<std::string, double>{{"▁", -2}, {"▁a", -3}, {"a", -4}, {"b", -5}})
    vocab.push_back(json::array({text, score}));
  json tokenizer = tiny_gemma({});
  tokenizer["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}};
  tokenizer["normalizer"] = nullptr;
  tokenizer["model"] = {
      {"type", "Unigram"}, {"unk_id", 0}, {"byte_fallback", has_bytes}, {"vocab", std::move(vocab)}};
  add_token(tokenizer, 1, "</s>", true);
  add_token(tokenizer, has_bytes ? 262 : 6, "<tool>", false);
  return tokenizer;
}

TEST(UnigramTokenizer, GivesPiecesAndBytes) {
  const Tokenizer tokenizer = parse(tiny_unigram(true));
  EXPECT_THAT(tokenizer.encode("ab a"), ElementsAre(261, 259, 261)) << "▁a, b, ▁a";
  EXPECT_THAT(tokenizer.encode("a\n<tool>é"), ElementsAre(261, 2 + '\n', 262, 2 + 0xc3, 2 + 0xa9));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("b 日\xff")), " b 日\xff");
  EXPECT_THAT(tokenizer.encode("b</s>", SpecialTokens::kAsAtoms), ElementsAre(260, 259, 1));
  EXPECT_THAT(tokenizer.encode("</s>"), testing::Not(testing::Contains(1))) << "text is no special token";
}

TEST(UnigramTokenizer, GivesOneUnknownTokenForARunWithoutBytes) {
  const Tokenizer tokenizer = parse(tiny_unigram(false));
  EXPECT_THAT(tokenizer.encode("a日é<tool>xb"), ElementsAre(5, 0, 6, 0, 3));
}

TEST(UnigramTokenizer, IsPackedAsItWasRead) {
  for (const bool has_bytes : {false, true}) {
    const json tiny = tiny_unigram(has_bytes);
    const Tokenizer packed = parse(tokenizer_json(read_tokenizer_json(JsonValue(tiny, "tiny.json"))));
    EXPECT_EQ(packed.encode("ab 日a <tool>"), parse(tiny).encode("ab 日a <tool>"));
  }
}

TEST(UnigramTokenizer, IsRefusedWithTheNameOfItsKey) {
  const auto refusal = [](const char* pointer, const json& value, const char* complaint) {
    json tiny = tiny_unigram(true);
    tiny[json::json_pointer(pointer)] = value;
    EXPECT_THAT([&] { parse(tiny); }, ThrowsMessage<InputError>(HasSubstr(complaint)));
  };
  refusal("/model/unk_id", 300, "model.unk_id is 300, outside [0, 261]");
  refusal("/model/vocab", json::array(), "model.vocab is empty");
  refusal("/model/vocab/259", 3, "model.vocab[259] must be [\"text\", score]");
  refusal("/model/vocab/259/0", "a", "has \"a\" a second time");
  refusal("/model/vocab", json::object(), "model.vocab must be a list");
  refusal("/model/byte_fallback", false, "which stands for a byte, and byte_fallback is false");
  refusal("/normalizer", {{"type", "Precompiled"}}, "normalizer.type is 'Precompiled'; supported are");
}

}  // namespace
}  // namespace lacuna::best_path_test
