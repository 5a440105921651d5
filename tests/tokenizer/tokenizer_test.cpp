#include "tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <random>

#include "base/error.h"
#include "temporary_folder.h"
#include "tokenizer/tiny_tokenizer.h"

namespace lacuna::tokenizer_test {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

template <typename Action>
std::string refusal_while(Action&& action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no refusal";
}

std::string refusal_of(const json& tokenizer) {
  return refusal_while([&] { parse(tokenizer); });
}

// The pre-tokens of `text`, seen through a tokenizer in which each of them would be one token.
std::vector<std::string> pieces_of(const json& pre_tokenizer, const std::string& text) {
  json tokenizer = tiny_tokenizer();
  tokenizer["pre_tokenizer"] = pre_tokenizer;
  tokenizer["model"]["ignore_merges"] = true;
  json& vocab = tokenizer["model"]["vocab"];
  for (size_t begin = 0; begin < text.size(); ++begin) {
    for (size_t end = begin + 1; end <= text.size(); ++end) {
      vocab.emplace(to_byte_characters(text.substr(begin, end - begin)), vocab.size());
      vocab.emplace(to_byte_characters(" " + text.substr(begin, end - begin)), vocab.size());
    }
  }
  const Tokenizer parsed = parse(tokenizer);
  std::vector<std::string> pieces;
  for (const TokenId id : parsed.encode(text)) pieces.push_back(parsed.decode(std::vector{id}));
  return pieces;
}

json byte_level(bool use_regex, bool add_prefix_space = false) {
  return {{"type", "ByteLevel"}, {"use_regex", use_regex}, {"add_prefix_space", add_prefix_space}};
}

json split(const std::string& expression, const std::string& behavior, bool invert = false) {
  const json rule = {
      {"type", "Split"}, {"pattern", {{"Regex", expression}}}, {"behavior", behavior}, {"invert", invert}};
  return {{"type", "Sequence"}, {"pretokenizers", {rule, byte_level(false)}}};
}

TEST(Tokenizer, MergesTheEarliestRuleFirstAndThenTheLeftmostPair) {
  const Tokenizer tokenizer = parse(tiny_tokenizer({{"b", "c"}, {"a", "b"}, {"a", "a"}}));
  EXPECT_THAT(tokenizer.encode("abc"), ElementsAre('a', 256));
  EXPECT_THAT(tokenizer.encode("abab"), ElementsAre(257, 257));
  EXPECT_THAT(tokenizer.encode("aaa"), ElementsAre(258, 'a'));
}

TEST(Tokenizer, MergesResultsWithBothNeighbours) {
  const Tokenizer tokenizer = parse(tiny_tokenizer({{"b", "c"}, {"a", "bc"}, {"abc", "d"}}));
  EXPECT_THAT(tokenizer.encode("abcd"), ElementsAre(258));
}

TEST(Tokenizer, ReadsMergesAsPairsOrAsTextWithASpace) {
  json as_text = tiny_tokenizer({{"a", "b"}});
  as_text["model"]["merges"] = {"a b"};
  EXPECT_EQ(parse(as_text).encode("abab"), parse(tiny_tokenizer({{"a", "b"}})).encode("abab"));
}

TEST(Tokenizer, KeepsSpecialTokensOutOfUserText) {
  json tiny = tiny_tokenizer();
  add_token(tiny, 300, "<|mask|>", true);
  const Tokenizer tokenizer = parse(tiny);
  EXPECT_EQ(tokenizer.encode("a<|mask|>"), ids_of_bytes("a<|mask|>"));
  EXPECT_THAT(tokenizer.encode("a<|mask|>b", SpecialTokens::kAsAtoms), ElementsAre('a', 300, 'b'));
}

TEST(Tokenizer, NeverMergesUserTextIntoASpecialToken) {
  json tiny = tiny_tokenizer({{"<", "x"}, {"<x", ">"}});
  add_token(tiny, 257, "<x>", true);
  tiny["pre_tokenizer"] = byte_level(false);
  EXPECT_THAT(parse(tiny).encode("<x>"), ElementsAre(256, '>'));
  tiny["model"]["ignore_merges"] = true;
  EXPECT_THAT(parse(tiny).encode("<x>"), ElementsAre(256, '>'));
}

TEST(Tokenizer, TakesAddedTokensThatAreNotSpecialAsAtomsInAnyText) {
  json tiny = tiny_tokenizer();
  add_token(tiny, 256, "<tool>", false);
  add_token(tiny, 257, "<tool><tool>", false);
  const Tokenizer tokenizer = parse(tiny);
  EXPECT_THAT(tokenizer.encode("<tool>"), ElementsAre(256));
  EXPECT_THAT(tokenizer.encode("<tool><tool><tool>"), ElementsAre(257, 256)) << "the longest goes first";
  EXPECT_FALSE(tokenizer.is_special(256));
}

TEST(Tokenizer, LetsAddedTokensTakeInWhiteSpace) {
  json tiny = tiny_tokenizer();
  add_token(tiny, 256, "<l>", false, {{"lstrip", true}});
  add_token(tiny, 257, "<r>", false, {{"rstrip", true}});
  const Tokenizer tokenizer = parse(tiny);
  EXPECT_THAT(tokenizer.encode("a \n\u3000<l> b"), ElementsAre('a', 256, ' ', 'b'));
  EXPECT_THAT(tokenizer.encode("a <r> \n\u3000b"), ElementsAre('a', ' ', 257, 'b'));
  EXPECT_THAT(tokenizer.encode("<r>  <l>"), ElementsAre(257, 256));
}

TEST(Tokenizer, FindsSingleWordTokensOnlyBetweenWords) {
  json tiny = tiny_tokenizer();
  add_token(tiny, 256, "cat", false, {{"single_word", true}});
  const Tokenizer tokenizer = parse(tiny);
  EXPECT_THAT(tokenizer.encode("cat,cat"), ElementsAre(256, ',', 256));
  EXPECT_EQ(tokenizer.encode("cats"), ids_of_bytes("cats"));
  EXPECT_EQ(tokenizer.encode("\u00e9cat"), ids_of_bytes("\u00e9cat"));
}

TEST(Tokenizer, LooksForNormalizedTokensInNormalizedText) {
  json tiny = tiny_tokenizer();
  tiny["normalizer"] = {{"type", "Lowercase"}};
  add_token(tiny, 256, "Cat", false, {{"normalized", true}});
  add_token(tiny, 257, "Dog", false, {{"normalized", false}});
  const Tokenizer tokenizer = parse(tiny);
  EXPECT_THAT(tokenizer.encode("CATDogDOG"), ElementsAre(256, 257, 'd', 'o', 'g'));
}

TEST(Tokenizer, NormalizesAsTheFileSays) {
  json tiny = tiny_tokenizer();
  const auto encode_with = [&](const json& normalizer) {
    tiny["normalizer"] = normalizer;
    return parse(tiny).encode("e\u0301\ufb01");
  };
  EXPECT_EQ(encode_with(nullptr), ids_of_bytes("e\u0301\ufb01"));
  EXPECT_EQ(encode_with({{"type", "NFC"}}), ids_of_bytes("\u00e9\ufb01"));
  EXPECT_EQ(encode_with({{"type", "NFKD"}}), ids_of_bytes("e\u0301fi"));
  EXPECT_EQ(encode_with({{"type", "Sequence"}, {"normalizers", {{{"type", "NFKC"}}, {{"type", "NFD"}}}}}),
            ids_of_bytes("e\u0301fi"));
  EXPECT_EQ(encode_with({{"type", "StripAccents"}}), ids_of_bytes("e\ufb01"));
}

TEST(Tokenizer, ReplacesAndStripsAsTheFileSays) {
  json tiny = tiny_tokenizer();
  const auto encode_with = [&](const json& normalizer) {
    tiny["normalizer"] = normalizer;
    return parse(tiny).encode(" a  bb\u00a0");
  };
  const json expression = {{"type", "Replace"}, {"pattern", {{"Regex", " +|b{2}"}}}, {"content", "$0"}};
  EXPECT_EQ(encode_with(expression), ids_of_bytes("$0a$0$0\u00a0"));
  EXPECT_EQ(encode_with({{"type", "Replace"}, {"pattern", {{"String", "b"}}}, {"content", ""}}),
            ids_of_bytes(" a  \u00a0"));
  EXPECT_EQ(encode_with({{"type", "Prepend"}, {"prepend", "xy"}}), ids_of_bytes("xy a  bb\u00a0"));
  EXPECT_EQ(encode_with({{"type", "Strip"}, {"strip_left", true}, {"strip_right", false}}),
            ids_of_bytes("a  bb\u00a0"));
  EXPECT_EQ(encode_with({{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}}),
            ids_of_bytes(" a  bb"));
  tiny["normalizer"] = {{"type", "Nmt"}};
  EXPECT_EQ(parse(tiny).encode("a\tb\x01\u200bc\v\u2581"), ids_of_bytes("a b c "));
}

// Each step makes a text 1024 times as long.
TEST(Tokenizer, RefusesNormalizersThatMakeTextsTooLong) {
  json tiny = tiny_tokenizer();
  const json grow = {
      {"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(1024, 'a')}};
  tiny["normalizer"] = {{"type", "Sequence"}, {"normalizers", json::array({grow, grow, grow, grow})}};
  EXPECT_THAT(refusal_while([&] { parse(tiny).encode("aaaa"); }),
              HasSubstr("tiny.json: normalizer makes a text of more than 4352 bytes of one of 4"));
}

TEST(Tokenizer, GivesBackAnyBytes) {
  const Tokenizer tokenizer = parse(tiny_tokenizer({{"a", "b"}, {"Ġ", "ab"}, {"Ã", "©"}}));
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::string bytes;
    for (size_t count = random() % 40; count > 0; --count) {
      bytes += random() % 2 == 0 ? std::string(" ab") : std::string(1, static_cast<char>(random() % 256));
    }
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(bytes)), bytes) << "round " << round;
  }
}

TEST(Tokenizer, DecodesAddedTokensAsWrittenAndDeadRowsAsNothing) {
  json tiny = tiny_tokenizer();
  add_token(tiny, 300, "<|end|>", true);
  add_token(tiny, 301, "caf\u00e9", false);
  const Tokenizer tokenizer = parse(tiny);
  EXPECT_EQ(tokenizer.size(), 302);
  const std::vector<TokenId> ids = {-1, 'a', 280, 300, 301, 302, 1 << 30};
  EXPECT_EQ(tokenizer.decode(ids), "acaf\u00e9");
  EXPECT_EQ(tokenizer.decode(ids, /*skip_special=*/false), "a<|end|>caf\u00e9");
}

TEST(Tokenizer, FindsIdsByExactText) {
  json tiny = tiny_tokenizer({{"Ġ", "t"}});
  add_token(tiny, 300, "<|end|>", true);
  const Tokenizer tokenizer = parse(tiny);
  EXPECT_EQ(tokenizer.id_of("<|end|>"), 300);
  EXPECT_EQ(tokenizer.id_of("Ġt"), 256);
  EXPECT_EQ(tokenizer.id_of(" t"), std::nullopt);
  EXPECT_EQ(tokenizer.token_of(" t"), 256) << "by its text";
  EXPECT_EQ(tokenizer.token_of("tt"), std::nullopt);
  EXPECT_EQ(tokenizer.token_of(""), std::nullopt);
  EXPECT_TRUE(tokenizer.is_special(300));
  EXPECT_FALSE(tokenizer.is_special(-1));
  EXPECT_FALSE(tokenizer.is_special(301));
}

TEST(Tokenizer, LeavesOutBytesWithoutATokenUnlessThereIsAnUnknownToken) {
  json tiny = tiny_tokenizer();
  tiny["model"]["vocab"].erase("x");
  EXPECT_THAT(parse(tiny).encode("axxb"), ElementsAre('a', 'b'));
  tiny["model"]["unk_token"] = "?";
  EXPECT_THAT(parse(tiny).encode("axxb"), ElementsAre('a', '?', '?', 'b'));
  tiny["model"]["fuse_unk"] = true;
  EXPECT_THAT(parse(tiny).encode("axxb"), ElementsAre('a', '?', 'b'));
}

TEST(PreTokenizer, DoesWithMatchesWhatTheBehaviorSays) {
  EXPECT_THAT(pieces_of(split("-", "Isolated"), "a--b-"), ElementsAre("a", "-", "-", "b", "-"));
  EXPECT_THAT(pieces_of(split("-", "Removed"), "a--b-"), ElementsAre("a", "b"));
  EXPECT_THAT(pieces_of(split("-", "MergedWithPrevious"), "a--b-"), ElementsAre("a-", "-", "b-"));
  EXPECT_THAT(pieces_of(split("-", "MergedWithNext"), "a--b-"), ElementsAre("a", "-", "-b", "-"));
  EXPECT_THAT(pieces_of(split("-", "Contiguous"), "a--b-"), ElementsAre("a", "--", "b", "-"));
  EXPECT_THAT(pieces_of(split("[a-z]", "Removed", /*invert=*/true), "a--b-"), ElementsAre("a", "b"));
}

TEST(PreTokenizer, TakesStringPatternsLiterally) {
  json rules = split("", "Isolated");
  rules["pretokenizers"][0]["pattern"] = {{"String", "."}};
  EXPECT_THAT(pieces_of(rules, "ab.c"), ElementsAre("ab", ".", "c"));
}

TEST(PreTokenizer, ReadsExpressionsAsOnigurumaDoes) {
  EXPECT_THAT(pieces_of(split(R"(\s)", "Removed"), "a\u180eb\u3000c"), ElementsAre("a\u180eb", "c"));
  EXPECT_THAT(pieces_of(split(R"(\w+)", "Isolated"), "e\u0301\u203fx\u00bd!"),
              ElementsAre("e\u0301\u203fx\u00bd", "!"));
  EXPECT_THAT(pieces_of(split("[[:punct:]]", "Isolated"), "a\u20acb"), ElementsAre("a", "\u20ac", "b"));
  EXPECT_THAT(pieces_of(split("^.", "Isolated"), "ab\ncd"), ElementsAre("a", "b\n", "c", "d"));
  EXPECT_THAT(pieces_of(split("x*", "Isolated"), "axxb"), ElementsAre("a", "xx", "b"));
  EXPECT_THAT(pieces_of(split(R"([^\r\n\p{L}\p{N}]?+\p{L}++)", "Isolated"), "a!b"), ElementsAre("a", "!b"));
}

TEST(PreTokenizer, SplitsByGpt2sExpressionUnlessToldNotTo) {
  EXPECT_THAT(pieces_of(byte_level(true), "I'll go  12"), ElementsAre("I", "'ll", " go", " ", " 12"));
  EXPECT_THAT(pieces_of(byte_level(false), "I'll go"), ElementsAre("I'll go"));
  EXPECT_THAT(pieces_of(byte_level(true, /*add_prefix_space=*/true), "a b"), ElementsAre(" a", " b"));
}

TEST(PreTokenizer, KnowsDigitsAndPunctuation) {
  const auto rules = [](const json& rule) {
    return json{{"type", "Sequence"}, {"pretokenizers", {rule, byte_level(false)}}};
  };
  EXPECT_THAT(pieces_of(rules({{"type", "Digits"}, {"individual_digits", true}}), "a12"),
              ElementsAre("a", "1", "2"));
  EXPECT_THAT(pieces_of(rules({{"type", "Digits"}, {"individual_digits", false}}), "a12"),
              ElementsAre("a", "12"));
  EXPECT_THAT(pieces_of(rules({{"type", "Punctuation"}, {"behavior", "Isolated"}}), "a,$b\u20ac"),
              ElementsAre("a", ",", "$", "b\u20ac"));
}

TEST(PreTokenizer, SplitsAtWhiteSpaceInEveryWay) {
  const auto pieces = [](const json& rule) {
    return pieces_of({{"type", "Sequence"}, {"pretokenizers", {rule, byte_level(false)}}}, "a_b, c\u3000-d");
  };
  EXPECT_THAT(pieces({{"type", "Whitespace"}}), ElementsAre("a_b", ",", "c", "-", "d"));
  EXPECT_THAT(pieces({{"type", "WhitespaceSplit"}}), ElementsAre("a_b,", "c", "-d"));
  EXPECT_THAT(pieces({{"type", "BertPreTokenizer"}}), ElementsAre("a", "_", "b", ",", "c", "-", "d"));
  EXPECT_THAT(pieces({{"type", "CharDelimiterSplit"}, {"delimiter", "-"}}), ElementsAre("a_b, c\u3000", "d"));
}

// A Sequence may stand wherever a step may.
TEST(TokenizerJson, ReadsSequencesWithinSequences) {
  const auto nested = [](const char* list, const json& steps) {
    const json inner = {{"type", "Sequence"}, {list, steps}};
    return json{{"type", "Sequence"}, {list, json::array({inner})}};
  };
  const json flat = split(R"(\d)", "Isolated");
  EXPECT_THAT(pieces_of(nested("pretokenizers", flat["pretokenizers"]), "a1b"), ElementsAre("a", "1", "b"));
  json tiny = tiny_tokenizer();
  tiny["normalizer"] = nested("normalizers", {{{"type", "NFKC"}}, {{"type", "Lowercase"}}});
  tiny["decoder"] = nested("decoders", {{{"type", "ByteLevel"}}, {{"type", "Fuse"}}});
  tiny["post_processor"] = nested("processors", json::array({{{"type", "ByteLevel"}}}));
  EXPECT_EQ(parse(tiny).encode("\ufb01E"), ids_of_bytes("fie"));
  for (int depth = 0; depth < 5; ++depth)
    tiny["normalizer"] = nested("normalizers", json::array({tiny["normalizer"]}));
  EXPECT_THAT(refusal_of(tiny), HasSubstr("is nested deeper than 8"));
}

TEST(PreTokenizer, ShowsByteCharactersToRulesBehindByteLevel) {
  json rules = split("Ġ", "Isolated");
  std::swap(rules["pretokenizers"][0], rules["pretokenizers"][1]);
  EXPECT_THAT(pieces_of(rules, "a b"), ElementsAre("a", " ", "b"));
}

TEST(PreTokenizer, RefusesExpressionsThatWouldRunForHours) {
  json tiny = tiny_tokenizer();
  tiny["pre_tokenizer"] = split("(a+)+(?=b)(?<=c)", "Isolated");
  const Tokenizer tokenizer = parse(tiny);
  EXPECT_THAT(refusal_while([&] { tokenizer.encode(std::string(64, 'a')); }),
              HasSubstr("tiny.json: pre_tokenizer"));
}

TEST(TokenizerLimits, EncodesALongPreTokenInReasonableTime) {
  const Tokenizer tokenizer = parse(tiny_tokenizer({{"a", "a"}, {"aa", "aa"}, {"aaaa", "aaaa"}}));
  EXPECT_EQ(tokenizer.encode(std::string(1 << 20, 'a')), std::vector<TokenId>(1 << 17, 258));
}

TEST(TokenizerJson, RefusesAMissingMergeByName) {
  json tiny = tiny_tokenizer({{"a", "b"}, {"ab", "c"}});
  json lacks_result = tiny;
  lacks_result["model"]["vocab"].erase("abc");
  EXPECT_EQ(refusal_of(lacks_result),
            "tiny.json: model.merges: merge 1 ('ab' 'c') needs 'abc', which is not in the vocabulary");
  json lacks_part = tiny;
  lacks_part["model"]["vocab"].erase("ab");
  EXPECT_THAT(refusal_of(lacks_part), HasSubstr("merge 0 ('a' 'b') needs 'ab'"));
}

TEST(TokenizerJson, RefusesBrokenJsonByName) {
  EXPECT_EQ(refusal_while([] { Tokenizer::from_json("{\"model\": ", "broken.json"); }),
            "broken.json: not valid JSON at line 1, column 11");
  EXPECT_THAT(refusal_while([] { Tokenizer::from_json("[]", "list.json"); }),
              HasSubstr("list.json must be an object"));
  EXPECT_THAT(refusal_while([] { Tokenizer::from_json("{}", "empty.json"); }), HasSubstr("no key 'model'"));
}

struct Damage {
  std::string pointer;  // where in the tiny tokenizer
  json value;
  std::string complaint;
};

class TokenizerJsonDamage : public testing::TestWithParam<Damage> {};

TEST_P(TokenizerJsonDamage, IsRefusedWithTheNameOfItsKey) {
  json tiny = tiny_tokenizer({{"a", "b"}});
  add_token(tiny, 257, "<x>", true);
  tiny[json::json_pointer(GetParam().pointer)] = GetParam().value;
  EXPECT_THAT(refusal_of(tiny), HasSubstr(GetParam().complaint));
}

INSTANTIATE_TEST_SUITE_P(
    All, TokenizerJsonDamage,
    testing::Values(
        Damage{"/model/vocab/ab", -1, "model.vocab.ab is -1"},
        Damage{"/model/vocab/ab", 1 << 20, "model.vocab.ab is 1048576, outside"},
        Damage{"/model/vocab/ab", 18446744073709551615ULL, "model.vocab.ab must be an integer"},
        Damage{"/model/vocab/ab", 256.0, "model.vocab.ab must be an integer"},
        Damage{"/model/vocab/ab", 7, "both have id 7"},
        Damage{"/model/vocab", "x", "model.vocab must be an object"},
        Damage{"/model/merges", json{"a"}, "model.merges[0] must be"},
        Damage{"/model/merges", json{"a b c"}, "model.merges[0] must be"},
        Damage{"/model/merges", {}, "model.merges must be a list"},
        Damage{"/model/type", "WordPiece", "model.type must be 'BPE'"},
        Damage{"/model/dropout", 0.1, "model.dropout"},
        Damage{"/model/byte_fallback", true, "model.byte_fallback"},
        Damage{"/model/continuing_subword_prefix", "##", "model.continuing_subword_prefix"},
        Damage{"/model/end_of_word_suffix", "</w>", "model.end_of_word_suffix"},
        Damage{"/normalizer",
               {{"type", "BertNormalizer"}},
               "normalizer.type is 'BertNormalizer'; supported are NFC, NFD, NFKC, NFKD, Lowercase"},
        Damage{"/pre_tokenizer", nullptr, "decoder.type is 'ByteLevel'; with no ByteLevel step, expected"},
        Damage{"/pre_tokenizer/type", "UnicodeScripts", "pre_tokenizer.type is 'UnicodeScripts'"},
        Damage{"/pre_tokenizer",
               {{"type", "CharDelimiterSplit"}, {"delimiter", "ab"}},
               "pre_tokenizer.delimiter is \"ab\"; expected one character"},
        Damage{"/pre_tokenizer", split("(", "Isolated"), "not a usable regular expression"},
        Damage{"/pre_tokenizer", split("[a[b]]", "Isolated"), "nested character classes"},
        Damage{"/pre_tokenizer", split("a", "Eaten"), "pre_tokenizer.pretokenizers[0].behavior is 'Eaten'"},
        Damage{"/decoder/type", "WordPiece", "decoder must be ByteLevel"},
        Damage{"/added_tokens/0/id", -5, "added_tokens[0].id is -5"},
        Damage{"/added_tokens/0/id", 5, "both have id 5"},
        Damage{"/added_tokens/0/content", "ab", "token 'ab' has two ids"},
        Damage{"/added_tokens/0/content", std::string(2000, 'x'), "has 2000 bytes"},
        Damage{"/added_tokens/0/special", "yes", "added_tokens[0].special must be true or false"}));

class TokenizerTrio : public testing::Test {
 protected:
  TokenizerTrio() {
    json vocab = tiny_tokenizer({{"a", "b"}})["model"]["vocab"];
    folder_.write("vocab.json", vocab.dump());
    folder_.write("merges.txt", "#version: 0.2\r\na b\r\n\r\n");
  }
  Tokenizer load() const { return Tokenizer::load(folder_.path()); }

  TemporaryFolder folder_;
};

TEST_F(TokenizerTrio, LoadsWithoutAnyOtherFile) {
  EXPECT_THAT(load().encode("abe\u0301 12"), ElementsAre(256, 0xc3, 0xa9, ' ', '1', '2')) << "with NFC";
}

TEST_F(TokenizerTrio, TakesFlagsOfAddedTokensFromTheConfig) {
  folder_.write("added_tokens.json", R"({"<s>": 257, "<t>": 258, "<u>": 259})");
  folder_.write("special_tokens_map.json", R"({"eos_token": {"content": "<u>"}})");
  folder_.write("tokenizer_config.json",
                R"({"added_tokens_decoder": {"257": {"content": "<s>", "special": true},
                                             "258": {"content": "<t>", "special": false},
                                             "260": {"content": "<v>", "special": true}}})");
  const Tokenizer tokenizer = load();
  EXPECT_TRUE(tokenizer.is_special(257));
  EXPECT_FALSE(tokenizer.is_special(258));
  EXPECT_TRUE(tokenizer.is_special(259));
  EXPECT_THAT(tokenizer.encode("<s><t><u><v>", SpecialTokens::kAsAtoms), ElementsAre(257, 258, 259, 260));
}

TEST_F(TokenizerTrio, RefusesDamageByTheNameOfItsFile) {
  folder_.write("merges.txt", "a b\nb c\n");
  EXPECT_THAT(refusal_while([&] { load(); }), HasSubstr("merges.txt: merge 1 ('b' 'c') needs 'bc'"));
  folder_.write("merges.txt", "a b\nab\n");
  EXPECT_THAT(refusal_while([&] { load(); }), HasSubstr("merges.txt: line 2"));
  folder_.write("merges.txt", "a b\n");
  folder_.write("added_tokens.json", R"({"<s>": 12})");
  EXPECT_THAT(refusal_while([&] { load(); }), HasSubstr("both have id 12"));
  folder_.write("added_tokens.json", "{}");
  folder_.write("tokenizer_config.json", R"({"tokenizer_class": "OtherTokenizer"})");
  EXPECT_THAT(refusal_while([&] { load(); }), HasSubstr("tokenizer_class 'OtherTokenizer'"));
  std::filesystem::remove(folder_.path() / "merges.txt");
  EXPECT_THAT(refusal_while([&] { load(); }), HasSubstr("\"vocab.json\", which is not read by itself"));
}

// The published vocabulary, and text of several kinds.
const std::filesystem::path kDream = LACUNA_SHARED_DIR "/hub/Dream-v0-Instruct-7B";
const std::filesystem::path kData = LACUNA_SHARED_DIR "/data";

TEST(DreamTokenizer, GivesThePublishedIds) {
  if (!exists(kDream)) GTEST_SKIP() << kDream << " is absent";
  const Tokenizer tokenizer = Tokenizer::load(kDream);
  EXPECT_THAT(tokenizer.encode("Hello world"), ElementsAre(9707, 1879));
  EXPECT_THAT(tokenizer.encode(" Hello world"), ElementsAre(21927, 1879));
  EXPECT_EQ(tokenizer.size(), 151667);
  EXPECT_EQ(tokenizer.id_of("<|mask|>"), 151666);
  EXPECT_TRUE(tokenizer.is_special(151666));
  EXPECT_FALSE(tokenizer.is_special(151657)) << "<tool_call>";
  EXPECT_THAT(tokenizer.encode("<|mask|>"), testing::Not(testing::Contains(151666)));
}

TEST(DreamTokenizerSlow, GivesBackPublishedTexts) {
  if (!exists(kDream) || !exists(kData)) GTEST_SKIP() << kData << " is absent";
  const Tokenizer tokenizer = Tokenizer::load(kDream);
  for (const char* file : {"wikitext-2/valid.txt", "wikitext-2/test.txt", "gsm8k/train.jsonl",
                           "gsm8k/test.jsonl", "mt_bench/question.jsonl", "text/grimm-tales.txt"}) {
    std::ifstream stream(kData / file, std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(stream), {});
    ASSERT_FALSE(text.empty()) << file;
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text) << file;
  }
}

}  // namespace
}  // namespace lacuna::tokenizer_test
