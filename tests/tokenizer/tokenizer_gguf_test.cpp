// The tokenizer of a GGUF file, read and written as files of a folder.
#include <gmock/gmock.h>

#include "base/error.h"
#include "base/gguf.h"
#include "gguf_bytes.h"
#include "temporary_folder.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/tokenizer.h"

namespace lacuna::tokenizer_gguf_test {
namespace {

using test::GgufBytes;
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
  gemma.model = "llama";
  expect_refused(gemma, "gpt2 (byte-level BPE) or gemma4 (BPE over characters)");
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
