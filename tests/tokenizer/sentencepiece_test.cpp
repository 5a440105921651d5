// SentencePiece's spelling, and tokenizers whose vocabulary is spelled so (Gemma).
#include "tokenizer/sentencepiece.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "temporary_folder.h"
#include "tokenizer/tiny_tokenizer.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_files.h"

namespace lacuna::sentencepiece_test {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(SentencePiece, SpellsSpacesAndBack) {
  EXPECT_EQ(escape_spaces("  a b"), "▁▁a▁b");
  EXPECT_EQ(escape_spaces(""), "");
  EXPECT_EQ(unescape_spaces("▁▁a▁b▁"), "  a b ");
  EXPECT_EQ(unescape_spaces("\xe2\x96"), "\xe2\x96") << "the start of a character";
}

TEST(SentencePiece, SpellsEveryByteAndBack) {
  EXPECT_EQ(byte_token(10), "<0x0A>");
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(byte_of_token(byte_token(static_cast<unsigned char>(byte))), static_cast<char>(byte));
  }
  EXPECT_EQ(byte_of_token("<0xfF>"), '\xff');
  for (const char* other : {"<0x+F>", "<0xG0>", "<0x0>", "<0x0A>>", "<0X0A>", "0x0A>", ""}) {
    EXPECT_EQ(byte_of_token(other), std::nullopt) << other;
  }
}

TEST(GemmaTokenizer, MergesOverWholeTextsAndPutsNoSpaceInFront) {
  const Tokenizer tokenizer = parse(tiny_gemma({"a", "b", "▁"}, {{"a", "b"}, {"▁", "ab"}, {"▁ab", "▁ab"}}));
  EXPECT_THAT(tokenizer.encode("ab ab"), ElementsAre(259, 260));
  EXPECT_THAT(tokenizer.encode(" ab ab"), ElementsAre(261));
  EXPECT_THAT(tokenizer.encode("b  a"), ElementsAre(257, 258, 258, 256));
  EXPECT_EQ(tokenizer.decode(std::vector<TokenId>{261, 258, 256}), " ab ab a");
  EXPECT_EQ(tokenizer.id_of("▁ab"), 260);
}

TEST(GemmaTokenizer, NeedsNoSplitAtSpaces) {
  json tiny = tiny_gemma({"a", "▁"}, {{"a", "▁"}, {"a▁", "a"}});
  const std::vector<TokenId> ids = parse(tiny).encode("a a a");
  tiny["pre_tokenizer"] = nullptr;
  tiny["normalizer"] = {{"type", "Sequence"}, {"normalizers", {tiny["normalizer"]}}};
  EXPECT_EQ(parse(tiny).encode("a a a"), ids);
  EXPECT_THAT(ids, ElementsAre(258, 259));
}

// Files before byte tokens, and small models trained on characters.
TEST(GemmaTokenizer, NeedsNoByteTokens) {
  json tiny = {{"normalizer", {{"type", "Sequence"}, {"normalizers", json::array()}}},
               {"pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "▁"}, {"add_prefix_space", true}}},
               {"decoder", {{"type", "Metaspace"}, {"replacement", "▁"}, {"add_prefix_space", true}}},
               {"model",
                {{"type", "BPE"},
                 {"unk_token", "?"},
                 {"vocab", {{"?", 0}, {"▁", 1}, {"a", 2}, {"b", 3}, {"▁a", 4}}},
                 {"merges", json::array({json::array({"▁", "a"})})}}}};
  EXPECT_THAT(parse(tiny).encode("ab xa"), ElementsAre(4, 3, 1, 0, 2));
  EXPECT_EQ(parse(tiny).decode(std::vector<TokenId>{3, 4}), "b a");
  EXPECT_EQ(parse(tokenizer_json(read_tokenizer_json(JsonValue(tiny, "tiny.json")))).encode("ab xa"),
            parse(tiny).encode("ab xa"));
  tiny["decoder"] = {{"type", "WordPiece"}, {"prefix", "##"}};
  EXPECT_THAT(
      [&] { parse(tiny); },
      ThrowsMessage<InputError>(HasSubstr("decoder.type is 'WordPiece'; with no ByteLevel step, expected")));
}

TEST(GemmaTokenizer, GivesCharactersWithoutAnEntryAsBytes) {
  const Tokenizer tokenizer = parse(tiny_gemma({"a", "é"}));
  EXPECT_THAT(tokenizer.encode("aé日"), ElementsAre(256, 257, 0xe6, 0x97, 0xa5));
  EXPECT_THAT(tokenizer.encode("\xe6 a"), ElementsAre(0xe6, 0xe2, 0x96, 0x81, 256)) << "▁ has no entry";
}

TEST(GemmaTokenizer, GivesBackAnyBytes) {
  const Tokenizer tokenizer = parse(tiny_gemma({"a", "b", "▁", "é"}, {{"a", "b"}, {"▁", "▁"}, {"é", "▁"}}));
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::string bytes;
    for (size_t count = random() % 40; count > 0; --count) {
      bytes += random() % 2 == 0 ? std::string("  abé") : std::string(1, static_cast<char>(random() % 256));
    }
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(bytes)), bytes) << "round " << round;
  }
}

TEST(GemmaTokenizer, DecodesTokenByToken) {
  const Tokenizer tokenizer = parse(tiny_gemma({"▁a", "▁"}));
  const std::vector<TokenId> ids = {256, 0xe6, 0x97, 0xa5, 257, 0xff, 0xe6, 256};
  std::string text;
  for (const TokenId id : ids) text += tokenizer.decode(std::vector{id});
  EXPECT_EQ(text, " a日 \xff\xe6 a");
  EXPECT_EQ(tokenizer.decode(ids), text);
  EXPECT_EQ(tokenizer.decoded_bytes(ids), text.size());
}

TEST(GemmaTokenizer, FindsAddedTokensInTheTextAsWritten) {
  json tiny = tiny_gemma({"a", "▁", "\n", "\n\n", "▁▁", "<bos>"});
  add_token(tiny, 259, "\n\n", false);
  add_token(tiny, 260, "▁▁", false);
  add_token(tiny, 261, "<bos>", true);
  const Tokenizer tokenizer = parse(tiny);
  EXPECT_THAT(tokenizer.encode("a\n\n\n  ▁▁"), ElementsAre(256, 259, 258, 257, 257, 260));
  EXPECT_THAT(tokenizer.encode("<bos>a", SpecialTokens::kAsAtoms), ElementsAre(261, 256));
  EXPECT_EQ(tokenizer.decode(std::vector<TokenId>{261, 260, 259}), "  \n\n");
}

TEST(GemmaTokenizer, NeverGivesASpecialTokenForUserText) {
  json tiny = tiny_gemma({"<", "x", ">", "!"}, {{"<", "x"}, {"<x", ">"}});
  add_token(tiny, 261, "<x>", true);
  add_token(tiny, 259, "!", true);
  EXPECT_THAT(parse(tiny).encode("<x>!"), ElementsAre(260, 258, '!'));
  tiny["model"]["ignore_merges"] = true;
  EXPECT_THAT(parse(tiny).encode("<x>"), ElementsAre(260, 258));
}

TEST(GemmaTokenizer, GivesTheUnknownTokenWithoutByteTokens) {
  json tiny = tiny_gemma({"a", "?"});
  tiny["model"]["unk_token"] = "?";
  for (int byte = 0; byte < 256; ++byte) {
    tiny["model"]["vocab"].erase(byte_token(static_cast<unsigned char>(byte)));
  }
  EXPECT_THAT(parse(tiny).encode("a日本a"), ElementsAre(256, 257, 256));
  tiny["model"]["fuse_unk"] = false;
  EXPECT_THAT(parse(tiny).encode("a日本a"), ElementsAre(256, 257, 257, 256));
  tiny["model"]["unk_token"] = nullptr;
  EXPECT_THAT(parse(tiny).encode("a日本a"), ElementsAre(256, 256));
}

TEST(GemmaTokenizer, MergesALongTextInReasonableTime) {
  const Tokenizer tokenizer = parse(tiny_gemma({"a", "▁"}, {{"a", "▁"}, {"a▁", "a▁"}, {"a▁a▁", "a▁a▁"}}));
  std::string text;
  while (text.size() < (size_t{1} << 20)) text += "a ";
  EXPECT_EQ(tokenizer.encode(text), std::vector<TokenId>(text.size() / 8, 260));
}

TEST(LlamaTokenizer, PutsASpaceInFrontAsItsFileSays) {
  json tiny = tiny_gemma({"a", "▁", "<s>"}, {{"▁", "a"}, {"▁a", "▁a"}});
  add_token(tiny, 258, "<s>", true);
  const auto encode = [&](const char* text) { return parse(tiny).encode(text, SpecialTokens::kAsAtoms); };
  const auto metaspace = [&](const char* scheme, bool splits) {
    tiny["normalizer"] = nullptr;
    tiny["pre_tokenizer"] = {
        {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", scheme}, {"split", splits}};
  };
  metaspace("first", false);
  EXPECT_THAT(encode("a a"), ElementsAre(260)) << "▁a▁a";
  EXPECT_THAT(encode(" a a"), ElementsAre(260)) << "not twice";
  EXPECT_THAT(encode("a<s>a"), ElementsAre(259, 258, 256)) << "only in front of the text";
  EXPECT_THAT(encode("<s>a"), ElementsAre(258, 256));
  metaspace("always", true);
  EXPECT_THAT(encode("a a<s>a"), ElementsAre(259, 259, 258, 259));
  metaspace("never", false);
  EXPECT_THAT(encode("a a"), ElementsAre(256, 259));
  tiny["normalizer"] = {{"type", "Sequence"},
                        {"normalizers",
                         {{{"type", "Prepend"}, {"prepend", "▁"}},
                          {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}}}};
  tiny["pre_tokenizer"] = nullptr;
  EXPECT_THAT(encode("a<s> a"), ElementsAre(259, 258, 257, 259))
      << "legacy: in front of every part, and twice";
}

TEST(LlamaTokenizer, IsRefusedInFilesOfAnotherForm) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"tokenizer.model", "has \"tokenizer.model\", which is not read, and no tokenizer.json"},
      {"tokenizer.model.v3", "AutoTokenizer"},
      {"tekken.json", "has \"tekken.json\""},
      {"qwen.tiktoken", "TikTokenConverter"},
      {"merges.txt", "has \"merges.txt\", which is not read by itself"},
      {"vocab.txt", "has \"vocab.txt\""}};
  for (const auto& [name, text] : cases) {
    const TemporaryFolder folder;
    folder.write("config.json", "{}");
    folder.write(name, "x");
    EXPECT_THAT([&] { Tokenizer::load(folder.path()); }, ThrowsMessage<InputError>(HasSubstr(text))) << name;
  }
}

struct GemmaDamage {
  std::string pointer;  // where in the tiny tokenizer
  json value;
  std::string complaint;
};

class GemmaTokenizerDamage : public testing::TestWithParam<GemmaDamage> {};

TEST_P(GemmaTokenizerDamage, IsRefusedWithTheNameOfItsKey) {
  json tiny = tiny_gemma({"a", "▁"});
  tiny[json::json_pointer(GetParam().pointer)] = GetParam().value;
  EXPECT_THAT([&] { parse(tiny); }, ThrowsMessage<InputError>(HasSubstr(GetParam().complaint)));
}

json steps(const std::vector<const char*>& types) {
  json list = json::array();
  for (const char* type : types) list.push_back({{"type", type}});
  return list;
}

INSTANTIATE_TEST_SUITE_P(
    All, GemmaTokenizerDamage,
    testing::Values(
        GemmaDamage{"/normalizer/content", std::string(2000, '_'),
                    "tiny.json: normalizer writes a text of 2000 bytes; expected at most 1024"},
        GemmaDamage{"/normalizer/content", 1, "normalizer.content must be a string"},
        GemmaDamage{"/normalizer/pattern", {{"Regex", "("}}, "normalizer is not a usable regular expression"},
        GemmaDamage{"/normalizer/pattern", {{"Glob", " "}}, "normalizer.pattern has no key 'Regex'"},
        GemmaDamage{"/normalizer/pattern/String", "", "normalizer replaces an empty text"},
        GemmaDamage{"/normalizer/type", "Prepend", "normalizer has no key 'prepend'"},
        GemmaDamage{"/normalizer/type", "BertNormalizer",
                    "normalizer.type is 'BertNormalizer'; supported are"},
        GemmaDamage{"/pre_tokenizer/type", "Metaspace", "pre_tokenizer has no key 'replacement'"},
        GemmaDamage{"/pre_tokenizer",
                    {{"type", "Metaspace"}, {"replacement", "_"}},
                    "pre_tokenizer.replacement is '_'; expected"},
        GemmaDamage{"/pre_tokenizer",
                    {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "last"}},
                    "pre_tokenizer.prepend_scheme is 'last'; supported are always, first, never"},
        GemmaDamage{"/pre_tokenizer",
                    {{"type", "Metaspace"},
                     {"replacement", "▁"},
                     {"prepend_scheme", "first"},
                     {"add_prefix_space", false}},
                    "pre_tokenizer.prepend_scheme is 'first', and add_prefix_space is false"},
        GemmaDamage{"/pre_tokenizer/type", "FixedLength",
                    "pre_tokenizer.type is 'FixedLength'; supported are"},
        GemmaDamage{"/pre_tokenizer",
                    {{"type", "ByteLevel"}},
                    "pre_tokenizer has a ByteLevel step; expected none with model.byte_fallback"},
        GemmaDamage{"/decoder", nullptr, "tiny.json has no decoder; with model.byte_fallback, expected"},
        GemmaDamage{"/decoder/type", "ByteLevel", "decoder.type is 'ByteLevel'; with model.byte_fallback"},
        GemmaDamage{"/decoder/decoders", steps({"Replace", "ByteFallback", "Fuse", "Strip", "Strip"}),
                    "decoder.decoders[4].type is 'Strip'; with model.byte_fallback, expected"},
        GemmaDamage{"/decoder/decoders", steps({"Strip", "ByteFallback", "Fuse"}),
                    "decoder.decoders[1].type is 'ByteFallback'; with model.byte_fallback, expected"},
        GemmaDamage{"/decoder/decoders/0/content", "_", "decoder.decoders[0].content is '_'; expected ' '"},
        GemmaDamage{"/decoder/decoders", 3, "decoder.decoders must be a list"},
        GemmaDamage{"/decoder/decoders", steps({"Replace", "Fuse"}), "decoder has no ByteFallback; with"},
        GemmaDamage{"/decoder/decoders", steps({"ByteFallback", "Fuse"}), "decoder has no Replace; with"},
        GemmaDamage{"/decoder/decoders", steps({"Replace", "ByteFallback", "Strip"}),
                    "decoder has Strip without Fuse; with"},
        GemmaDamage{"/decoder/decoders", steps({"Replace", "ByteFallback", "CTC"}),
                    "decoder.decoders[2].type is 'CTC'; with"},
        GemmaDamage{"/model/byte_fallback", false, "model.vocab has \"<0x00>\", which stands for a byte"},
        GemmaDamage{"/model/byte_fallback", 1, "model.byte_fallback must be true or false"},
        GemmaDamage{"/model/lacuna", 1, "model.lacuna must be an object"},
        GemmaDamage{"/model/vocab", {{"a", 0}, {"<0x00>", 1}}, "model.vocab has 1 of the byte tokens"},
        GemmaDamage{"/added_tokens", json::array({{{"id", 10}, {"content", "<0x0A>"}, {"special", true}}}),
                    "the token of byte 0x0a cannot be a special token"}));

}  // namespace
}  // namespace lacuna::sentencepiece_test
