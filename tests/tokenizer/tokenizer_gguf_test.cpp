// The tokenizer of a GGUF file, read and written as files of a folder.
#include <gmock/gmock.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/gguf.h"
#include "gguf_bytes.h"
#include "temporary_folder.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/gguf_pre_tokenizers.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/tokenizer.h"

namespace lacuna::tokenizer_gguf_test {
namespace {

using test::GgufBytes;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Letters, two merges and tokens of each kind that a file may name.
GgufBytes small_tokenizer() {
  GgufBytes file;
  file.text("tokenizer.ggml.model", "gpt2");
  file.text("tokenizer.ggml.pre", "qwen2");
  file.texts("tokenizer.ggml.tokens", {"a", "b", "c", "ab", "abc", "\u0120", "1", "2", "<|end|>", "<tool>"});
  file.numbers("tokenizer.ggml.token_type", {1, 1, 1, 1, 1, 1, 1, 1, 3, 4});
  file.texts("tokenizer.ggml.merges", {"a b", "ab c"});
  file.number("tokenizer.ggml.bos_token_id", 8);
  file.number("tokenizer.ggml.eos_token_id", 9);
  file.number("tokenizer.ggml.padding_token_id", 100);  // it has none of these
  file.text("tokenizer.chat_template",
            "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{{ pad_token }}");
  file.text("tokenizer.chat_template.tool_use", "tools");
  return file;
}

TEST(GgufTokenizer, IsTheSameAsFilesOfAFolder) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "tokenizer.gguf";
  small_tokenizer().write(path);
  const TokenizerTexts texts = gguf_tokenizer_texts(GgufFile::open(path));
  folder.write("tokenizer.json", texts.tokenizer);
  folder.write("tokenizer_config.json", texts.tokenizer_config);

  const Tokenizer from_file = Tokenizer::load(path);
  const Tokenizer from_folder = Tokenizer::load(folder.path());
  EXPECT_EQ(from_folder.size(), from_file.size());
  for (const char* text : {"abc cab 12", "ab<tool>c", "a<|end|>", "e\u0301 abab"}) {
    for (const SpecialTokens special : {SpecialTokens::kAsText, SpecialTokens::kAsAtoms})
      EXPECT_EQ(from_folder.encode(text, special), from_file.encode(text, special)) << text;
  }
  for (TokenId id = 0; id < from_file.size(); ++id)
    EXPECT_EQ(from_folder.is_special(id), from_file.is_special(id));

  const ChatTemplate of_file = load_chat_template(path);
  const ChatTemplate of_folder = load_chat_template(folder.path());
  EXPECT_EQ(of_file.description(), "tokenizer.chat_template");
  for (const ChatTemplate& chat_template : {of_file, of_folder}) {
    Conversation conversation(std::vector<Message>{{"user", "abc"}});
    EXPECT_EQ(jinja::text_of(chat_template.pieces(conversation)), "<|end|>abc<tool>");
    conversation.tools = nlohmann::ordered_json::array({nlohmann::ordered_json::object()});
    EXPECT_EQ(jinja::text_of(chat_template.pieces(conversation)), "tools");
  }
}

/// Gemma 4: the byte tokens, then tokens from 256 on. Its converter calls runs of newlines normal.
struct SmallGemma {
  SmallGemma() {
    for (int byte = 0; byte < 256; ++byte) {
      tokens.push_back(byte_token(static_cast<unsigned char>(byte)));
      types.push_back(6);
    }
    for (const char* text : {"a", "b", "▁", "▁a", "\n", "\n\n\n"}) {
      tokens.emplace_back(text);
      types.push_back(1);
    }
    for (const auto& [text, type] : {std::pair{"<bos>", 3}, {"<|turn>", 3}, {"<turn|>", 3}, {"<tool>", 4}}) {
      tokens.emplace_back(text);
      types.push_back(type);
    }
  }

  void write(const std::filesystem::path& path) {
    file.text("tokenizer.ggml.model", model);
    file.texts("tokenizer.ggml.tokens", tokens);
    file.numbers("tokenizer.ggml.token_type", types);
    file.texts("tokenizer.ggml.merges", {"▁ a", "▁a \n"});
    file.number("tokenizer.ggml.bos_token_id", 262);
    file.flag("tokenizer.ggml.add_bos_token", true);
    file.text("tokenizer.chat_template", "{{ '<|turn>' }} {{ '<turn|>' }}");
    file.write(path);
  }

  GgufBytes file;  // may hold further keys before write()
  std::string model = "gemma4";
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
};

TEST(GgufTokenizer, OfGemmaSplitsAtNewlinesOnlyAndKeepsTheirRunsWhole) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "gemma.gguf";
  SmallGemma gemma;
  gemma.tokens.emplace_back("▁a\n");  // no merge crosses from a line into newlines
  gemma.types.push_back(1);
  gemma.file.flag("tokenizer.ggml.add_space_prefix", false);
  gemma.write(path);
  const Tokenizer tokenizer = Tokenizer::load(path);
  EXPECT_THAT(tokenizer.encode("a a\nb"), ElementsAre(256, 259, 260, 257));
  EXPECT_THAT(tokenizer.encode("\n\n\na\n\n"), ElementsAre(261, 256, 260, 260));
  EXPECT_THAT(tokenizer.encode("\n\n\n\n"), ElementsAre(260, 260, 260, 260));
  EXPECT_THAT(tokenizer.encode("é<tool>"), ElementsAre(0xc3, 0xa9, 265));
  EXPECT_THAT(tokenizer.encode("<bos>", SpecialTokens::kAsAtoms), ElementsAre(262));
  EXPECT_EQ(tokenizer.encode("<bos>").size(), 5);
  EXPECT_TRUE(tokenizer.is_special(262));
  EXPECT_EQ(tokenizer.decode(std::vector<TokenId>{262, 259, 0xe6, 0x97, 0xa5, 261}), " a日\n\n\n");
}

TEST(GgufTokenizer, OfGemmaIsTheSameAsFilesOfAFolder) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "gemma.gguf";
  SmallGemma gemma;
  gemma.tokens.emplace_back("▁a\n");
  gemma.types.push_back(1);
  gemma.write(path);
  const TokenizerTexts texts = gguf_tokenizer_texts(GgufFile::open(path));
  folder.write("tokenizer.json", texts.tokenizer);
  folder.write("tokenizer_config.json", texts.tokenizer_config);
  const Tokenizer from_file = Tokenizer::load(path);
  const Tokenizer from_folder = Tokenizer::load(folder.path());
  EXPECT_EQ(from_folder.size(), from_file.size());
  for (const char* text : {"a a b", " a\n\n\n\n a\n\n\n", "é<tool><bos>", "\xff▁"}) {
    for (const SpecialTokens special : {SpecialTokens::kAsText, SpecialTokens::kAsAtoms})
      EXPECT_EQ(from_folder.encode(text, special), from_file.encode(text, special)) << text;
  }
  for (TokenId id = 0; id < from_file.size(); ++id) {
    const std::vector<TokenId> one = {id};
    EXPECT_EQ(from_folder.decode(one, false), from_file.decode(one, false)) << id;
  }
  EXPECT_EQ(load_chat_template(folder.path()).program(), load_chat_template(path).program());
}

TEST(GgufTokenizer, OfGemmaRefusesWhatWouldGiveOtherTokens) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "gemma.gguf";
  const auto expect_refused = [&](SmallGemma gemma, const std::string& part) {
    gemma.write(path);
    EXPECT_THAT([&] { Tokenizer::load(path); }, ThrowsMessage<InputError>(HasSubstr(part)));
  };
  SmallGemma gemma;
  gemma.model = "bert";
  expect_refused(gemma, "gpt2 (byte-level BPE), gemma4 (BPE over characters) or llama (SentencePiece's BPE)");
  gemma.model = "gpt2";
  expect_refused(gemma, "the type 6; expected 1 to 5");
  gemma = {};
  gemma.types[256] = 6;
  expect_refused(gemma, "gives \"a\" the type 6; expected 1 to 5, or 6 for <0x00> to <0xFF>");
  gemma = {};
  gemma.types[256] = 7;
  expect_refused(gemma, "the type 7");
  gemma = {};
  gemma.tokens[7] = "seven";
  gemma.types[7] = 1;
  expect_refused(gemma, "has 255 of the byte tokens <0x00> to <0xFF>; expected all 256 or none");
  gemma = {};
  gemma.tokens[265] = "<bos>";
  expect_refused(gemma, "holds \"<bos>\" twice");
  gemma = {};
  gemma.file.flag("tokenizer.ggml.add_space_prefix", true);
  expect_refused(gemma, "tokenizer.ggml.add_space_prefix");
  gemma = {};
  gemma.file.text("tokenizer.ggml.pre", "qwen2");
  expect_refused(gemma, "tokenizer.ggml.pre");
  expect_refused({}, "merge 1 ('▁a' '\n') needs '▁a\n'");
}

/// SentencePiece's tokenizer of Llama 2: three special tokens, the byte tokens, then entries with scores.
struct SmallSentencePiece {
  SmallSentencePiece() {
    add("<unk>", 2, 0);
    add("<s>", 3, 0);
    add("</s>", 3, 0);
    for (int byte = 0; byte < 256; ++byte) add(byte_token(static_cast<unsigned char>(byte)), 6, 0);
    add("▁", 1, -10);  // 259
    add("a", 1, -11);
    add("b", 1, -12);
    add("ab", 1, -1);  // 262
    add("ba", 1, -1);
    add("▁a", 1, -2);
    add("▁ab", 1, -3);  // 265
    add("aba", 1, -4);
    add("<tool>", 4, 0);
    add("  ", 4, 0);  // 268
  }
  void add(const std::string& text, int32_t type, float score) {
    tokens.push_back(text);
    types.push_back(type);
    scores.push_back(score);
  }

  Tokenizer load(const std::filesystem::path& path) {
    file.text("tokenizer.ggml.model", "llama");
    file.text("tokenizer.ggml.pre", "default");
    file.texts("tokenizer.ggml.tokens", tokens);
    file.numbers("tokenizer.ggml.token_type", types);
    if (!scores.empty()) file.reals("tokenizer.ggml.scores", scores);
    file.write(path);
    return Tokenizer::load(path);
  }

  GgufBytes file;
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::vector<float> scores;
};

class SentencePieceFile : public testing::Test {
 protected:
  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "llama.gguf";
  SmallSentencePiece small_;
};

TEST_F(SentencePieceFile, MergesWhatHasTheLargestScoreAndThenStandsLeftmost) {
  small_.file.flag("tokenizer.ggml.add_space_prefix", false);
  const Tokenizer tokenizer = small_.load(path_);
  EXPECT_THAT(tokenizer.encode("ab"), ElementsAre(262));
  EXPECT_THAT(tokenizer.encode("aba"), ElementsAre(266));       // ab, then aba
  EXPECT_THAT(tokenizer.encode("bab"), ElementsAre(263, 261));  // ba and ab are equal: the left one
  EXPECT_THAT(tokenizer.encode(" ab"), ElementsAre(265));
  EXPECT_THAT(tokenizer.encode("é"), ElementsAre(3 + 0xc3, 3 + 0xa9));
  EXPECT_THAT(tokenizer.encode("\xff"), ElementsAre(3 + 0xff));
}

TEST_F(SentencePieceFile, PutsASpaceBeforeEachTextBetweenTokens) {
  const Tokenizer tokenizer = small_.load(path_);
  EXPECT_THAT(tokenizer.encode(""), ElementsAre());
  EXPECT_THAT(tokenizer.encode("ab"), ElementsAre(265));
  EXPECT_THAT(tokenizer.encode("b<tool>a"), ElementsAre(259, 261, 267, 264));
  EXPECT_THAT(tokenizer.encode("<s>b", SpecialTokens::kAsAtoms), ElementsAre(1, 259, 261));
  EXPECT_THAT(tokenizer.encode("a  b"), ElementsAre(264, 268, 259, 261));  // two spaces are a token
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("ab a")), " ab a");
}

TEST_F(SentencePieceFile, NeverWritesSpecialTokensForText) {
  small_.add("<", 1, -1);
  small_.add("<s", 1, -1);
  small_.add("s", 1, -1);
  small_.add(">", 1, -1);
  const Tokenizer tokenizer = small_.load(path_);
  EXPECT_THAT(tokenizer.encode("<s>"), ElementsAre(259, 270, 272));
}

TEST_F(SentencePieceFile, IsTheSameAsFilesOfAFolder) {
  small_.file.flag("tokenizer.ggml.add_bos_token", true);
  const Tokenizer from_file = small_.load(path_);
  const TokenizerTexts texts = gguf_tokenizer_texts(GgufFile::open(path_));
  folder_.write("tokenizer.json", texts.tokenizer);
  folder_.write("tokenizer_config.json", texts.tokenizer_config);
  EXPECT_THAT(texts.tokenizer_config, HasSubstr("\"add_bos_token\": true"));
  const Tokenizer from_folder = Tokenizer::load(folder_.path());
  EXPECT_EQ(from_folder.size(), from_file.size());
  for (const char* text : {"ab bab", "  a<tool>é", "<s>aba</s>", "\xff▁"}) {
    for (const SpecialTokens special : {SpecialTokens::kAsText, SpecialTokens::kAsAtoms})
      EXPECT_EQ(from_folder.encode(text, special), from_file.encode(text, special)) << text;
  }
}

TEST_F(SentencePieceFile, IsRefusedWithoutAFiniteScoreForEachToken) {
  const auto expect_refused = [&](const std::string& part) {
    EXPECT_THAT([&] { small_.load(path_); }, ThrowsMessage<InputError>(HasSubstr(part)));
    small_ = {};
  };
  small_.scores.clear();
  expect_refused("\"tokenizer.ggml.scores\" is missing; expected a list of numbers");
  small_.scores.pop_back();
  expect_refused("holds 268 scores for 269 tokens; expected one for each");
  small_.scores[7] = std::numeric_limits<float>::quiet_NaN();
  expect_refused("holds nan; expected finite numbers");
}

TEST(GgufTokenizer, IsSplitByTheNameOfItsModel) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "tokenizer.gguf";
  // Merges make two digits of neighbours, a space with a digit and quote with s where nothing splits them.
  const auto ids_of = [&](const char* pre, const std::string& text) {
    GgufBytes file;
    file.text("tokenizer.ggml.model", "gpt2");
    if (pre != nullptr) file.text("tokenizer.ggml.pre", pre);
    file.texts("tokenizer.ggml.tokens", {"1", "2", "12", "\u0120", "\u012012", "!", "\u0120!", "121"});
    file.texts("tokenizer.ggml.merges", {"1 2", "\u0120 12", "\u0120 !", "12 1"});
    file.write(path);
    return Tokenizer::load(path).encode(text);
  };
  EXPECT_THAT(ids_of("gpt-2", " 12 !"), ElementsAre(4, 6));
  EXPECT_THAT(ids_of("smollm", " 12 !"), ElementsAre(3, 0, 1, 6));
  EXPECT_THAT(ids_of("starcoder", "12"), ElementsAre(0, 1));
  EXPECT_THAT(ids_of("llama-bpe", " 121212"), ElementsAre(3, 7, 1, 2));
  EXPECT_THAT(ids_of("default", " 12 !"), ElementsAre(3, 2, 3, 5));
  EXPECT_THAT(ids_of(nullptr, " 12 !"), ElementsAre(3, 2, 3, 5));
  EXPECT_THAT(ids_of("deepseek-v3", "1212"), ElementsAre(7, 1));
  EXPECT_THAT([&] { ids_of("wonder", ""); },
              ThrowsMessage<InputError>(
                  AllOf(HasSubstr("\"tokenizer.ggml.pre\" is \"wonder\"; expected one of default, gpt-2"),
                        HasSubstr("smollm"), HasSubstr("tekken"))));
}

TEST(GgufTokenizer, HasAnExpressionForEachNameThatCompiles) {
  std::string names = gguf_pre_tokenizer_names();
  int count = 0;
  for (size_t begin = 0; begin < names.size(); ++count) {
    const size_t end = std::min(names.find(", ", begin), names.size());
    std::vector<PreTokenizerRule> rules;
    for (const std::string_view expression :
         gguf_pre_tokenizer(names.substr(begin, end - begin))->expressions)
      rules.emplace_back(SplitRule{.pattern = std::string(expression)});
    rules.emplace_back(ByteLevelRule{.use_regex = false});
    const Pieces pieces =
        PreTokenizer(rules, BpeSymbols::kBytes, "test").split("It's 1234 naïve 日本 \n\n x_1!");
    size_t bytes = 0;
    for (const TextRange range : pieces.ranges) bytes += range.end - range.begin;
    EXPECT_EQ(bytes, pieces.text.size());
    begin = end + 2;
  }
  EXPECT_GT(count, 60);
}

TEST(GgufTokenizer, ThatIsAWholeTokenizerJsonStaysThat) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "tokenizer.gguf";
  GgufBytes file;
  file.text("tokenizer.huggingface.json", "{}");
  file.write(path);
  EXPECT_EQ(gguf_tokenizer_texts(GgufFile::open(path)).tokenizer, "{}");
}

}  // namespace
}  // namespace lacuna::tokenizer_gguf_test
