// Files and texts made to cost time or memory. Sizes are such that quadratic time would be minutes to hours.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>

#include "base/budget.h"
#include "base/error.h"
#include "temporary_folder.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/jinja.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/tiny_tokenizer.h"
#include "tokenizer/tokenizer.h"

namespace lacuna::limits_test {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::string repeat(std::string_view text, size_t count) {
  std::string result;
  for (size_t i = 0; i < count; ++i) result += text;
  return result;
}

Tokenizer splitting_by(const std::string& expression) {
  json tiny = tiny_tokenizer();
  const json rule = {
      {"type", "Split"}, {"pattern", {{"Regex", expression}}}, {"behavior", "Isolated"}, {"invert", false}};
  const json bytes = {{"type", "ByteLevel"}, {"use_regex", false}, {"add_prefix_space", false}};
  tiny["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {rule, bytes}}};
  return parse(tiny);
}

void expect_refused(const json& tokenizer, const std::string& part) {
  EXPECT_THAT([&] { parse(tokenizer); }, ThrowsMessage<InputError>(HasSubstr(part)));
}

std::string normalize(const std::string& text, NormalizerRule rule) {
  return Normalizer({std::move(rule)}, "rules").apply(text);
}

constexpr auto kNfc = Normalization::kNfc;
constexpr auto kNfd = Normalization::kNfd;
constexpr auto kNfkc = Normalization::kNfkc;

TEST(Normalize, OrdersAnyNumberOfMarks) {
  constexpr size_t kCount = 500'000;
  const std::string above = repeat("\u0301", kCount);
  const std::string below = repeat("\u0316", kCount);
  EXPECT_EQ(normalize("a" + repeat("\u0301\u0316", kCount), kNfd), "a" + below + above);
  EXPECT_EQ(normalize("a" + above + below, kNfc),
            "\u00e1" + below + std::string_view(above).substr(2).data());
}

// Tibetan vowel signs of class 0 that decompose into two marks each.
TEST(Normalize, OrdersMarksThatComeFromDecomposition) {
  constexpr size_t kCount = 300'000;
  for (const auto& [sign, first, second] :
       {std::array{"\u0f73", "\u0f71", "\u0f72"}, std::array{"\u0f81", "\u0f71", "\u0f80"}}) {
    EXPECT_EQ(normalize(repeat(sign, kCount), kNfc), repeat(first, kCount) + repeat(second, kCount));
  }
}

TEST(Normalize, AgreesWithUnicodesExamples) {
  EXPECT_EQ(normalize("\u1e9b\u0323", kNfc), "\u1e9b\u0323");
  EXPECT_EQ(normalize("\u1e9b\u0323", kNfd), "\u017f\u0323\u0307");
  EXPECT_EQ(normalize("\u1e9b\u0323", kNfkc), "\u1e69");
  EXPECT_EQ(normalize("\u1100\u1161\u11a8 \u212b \u0958", kNfc), "\uac01 \u00c5 \u0915\u093c");
  EXPECT_EQ(normalize("\ufdfa", kNfkc).size(), 33);
}

// A Budget of the thread ends the work for a text, wherever it is.
TEST(Tokenizing, EndsWhereNobodyWaitsForIt) {
  const Tokenizer by_regex = splitting_by("a+b|[^ ]");
  json whole = tiny_tokenizer();
  whole["pre_tokenizer"] = {{"type", "ByteLevel"}, {"use_regex", false}, {"add_prefix_space", false}};
  const Tokenizer in_one_piece = parse(whole);
  const std::atomic<bool> stop{true};
  for (const Tokenizer* const tokenizer : {&by_regex, &in_one_piece}) {
    const std::string text = repeat("hello", 100'000);
    const Budget budget("text", {.stop = &stop});
    EXPECT_THROW((void)tokenizer->encode(text), WorkCancelled);
    EXPECT_LT(budget.steps_spent(), 200'000 + static_cast<int64_t>(text.size()) * 16);
  }
}

TEST(Templates, EndWhereNobodyWaitsForThem) {
  const auto loops = jinja::Template::parse("{% for i in range(100000) %}{% endfor %}", "template");
  const std::atomic<bool> stop{true};
  const Budget budget("text", {.stop = &stop});
  EXPECT_THROW((void)loops.render({}, {}, 0), WorkCancelled);
}

TEST(RegexBudget, IsSharedByAllMatchesOfAText) {
  // Each match takes a few hundred thousand steps, which PCRE2's limit allows, and there is one at every
  // byte.
  const Tokenizer tokenizer = splitting_by("(?=(?:a?){18}a{18}[bc])a|a");
  EXPECT_NO_THROW(tokenizer.encode("aa"));
  EXPECT_THAT([&] { tokenizer.encode(std::string(1 << 20, 'a')); },
              ThrowsMessage<InputError>(HasSubstr("tiny.json: pre_tokenizer takes too many steps")));
}

TEST(RegexBudget, CountsWhatCompiledExpressionsDo) {
  for (const std::string expression :
       {"a*a*a*a*a*[bc]", "(?:a|aa)+[bc]", "a*+[bc]|.", R"((a+)\1+b)", "(?<=a)(?:.*x)"}) {
    EXPECT_THAT([&] { splitting_by(expression).encode(std::string(1 << 20, 'a')); },
                ThrowsMessage<InputError>(HasSubstr("tiny.json: pre_tokenizer")))
        << expression;
  }
}

TEST(RegexBudget, SufficesForPublishedExpressions) {
  for (const std::string_view part :
       {"a", " ", "\n", "  \n\t", "1", ".", "a b1,\n", "\u00e9", "\u4e2d", "'s"}) {
    const Tokenizer tokenizer = splitting_by(std::string(kQwen2Pattern));
    EXPECT_NO_THROW(tokenizer.encode(repeat(part, 300'000))) << part;
  }
}

TEST(AddedTokenLimits, FindsTheLongestOfManyWithASharedPrefix) {
  json tiny = tiny_tokenizer();
  for (int length = 1; length < 1000; ++length) {
    add_token(tiny, 255 + length, std::string(length, 'a') + "b", false);
  }
  const Tokenizer tokenizer = parse(tiny);
  std::vector<TokenId> expected(1 << 22, 'a');
  EXPECT_EQ(tokenizer.encode(std::string(1 << 22, 'a')), expected);
  EXPECT_THAT(tokenizer.encode("aab" + std::string(999, 'a') + "b"), ElementsAre(257, 256 + 998));
}

TEST(AddedTokenLimits, LooksAtWhiteSpaceOnce) {
  json tiny = tiny_tokenizer();
  add_token(tiny, 256, "\u2003", false, {{"lstrip", true}});  // itself white space
  add_token(tiny, 257, "<|>", false, {{"lstrip", true}, {"rstrip", true}});
  const std::string spaces = repeat("\u2003", 2'000'000);
  EXPECT_EQ(parse(tiny).encode(spaces).size(), 2'000'000);
  EXPECT_THAT(parse(tiny).encode("a  <|>  <|> b"), ElementsAre('a', 257, 257, 'b'));
}

TEST(AddedTokenLimits, ReadsManyOfTokenizerConfig) {
  const TemporaryFolder folder;
  constexpr int kCount = 300'000;
  json decoder = json::object();
  for (int i = 0; i < kCount; ++i) {
    decoder[std::to_string(256 + i)] = {{"content", "<" + std::to_string(i)}, {"special", true}};
  }
  std::ofstream(folder.path() / "tokenizer.json") << tiny_tokenizer();
  std::ofstream(folder.path() / "tokenizer_config.json") << json{{"added_tokens_decoder", decoder}};
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  EXPECT_EQ(tokenizer.size(), 256 + kCount);
  EXPECT_EQ(tokenizer.id_of("<299999"), 256 + 299'999);
}

TEST(AddedTokenLimits, BoundsTheLengthOfAllTogether) {
  json tiny = tiny_tokenizer();
  for (int i = 0; i < 5000; ++i)
    add_token(tiny, 256 + i, std::to_string(10'000 + i) + std::string(1000, 'x'), false);
  expect_refused(tiny, "tiny.json: added tokens have more than the 4194304 bytes");
}

TEST(TokenizerLimits, RefusesTokensThatNoTextHolds) {
  json tiny = tiny_tokenizer();
  tiny["model"]["vocab"][std::string(100'000, 'a')] = 256;
  expect_refused(tiny, "tiny.json: token 256 has 100000 bytes");
}

TEST(TokenizerLimits, RefusesEndlessSteps) {
  json tiny = tiny_tokenizer();
  json steps = json::array();
  for (int i = 0; i < 1000; ++i) steps.push_back({{"type", "NFKD"}});
  tiny["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}};
  expect_refused(tiny, "normalizer has 1000 steps; expected at most 64");

  json split = tiny_tokenizer();
  steps = json::array({split["pre_tokenizer"]});
  for (int i = 0; i < 1000; ++i) steps.push_back({{"type", "Digits"}});
  split["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", steps}};
  expect_refused(split, "pre_tokenizer has 1001 steps; expected at most 64");
}

TEST(Limits, HoldForSymbolicLinksThatLeadNowhere) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("tokenizer.json", folder.path() / "tokenizer.json");
  EXPECT_THAT([&] { Tokenizer::load(folder.path()); },
              ThrowsMessage<InputError>(HasSubstr("tokenizer.json")));
  std::filesystem::create_symlink("nowhere", folder.path() / "chat_template.jinja");
  EXPECT_THAT([&] { load_chat_template(folder.path()); },
              ThrowsMessage<InputError>(HasSubstr("chat_template.jinja")));
}

TEST(Limits, HoldForChatTemplates) {
  const TemporaryFolder folder;
  const auto refusal = [&] {
    try {
      load_chat_template(folder.path());
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  folder.write("chat_template.jinja", std::string(kMaxTemplateBytes + 1, 'a'));
  EXPECT_THAT(refusal(), HasSubstr("chat_template.jinja: the chat template has 1048577 bytes"));
  folder.write("chat_template.jinja", "a");
  std::filesystem::create_directory(folder.path() / "additional_chat_templates");
  for (size_t i = 0; i < kMaxTemplates; ++i)
    folder.write("additional_chat_templates/" + std::to_string(i) + ".jinja", "a");
  EXPECT_THAT(refusal(), HasSubstr("there are more than 64 chat templates"));
}

}  // namespace
}  // namespace lacuna::limits_test
