// The tokenizer of a GGUF file, read and written as files of a folder.
#include <gmock/gmock.h>

#include "base/gguf.h"
#include "gguf_bytes.h"
#include "temporary_folder.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace lacuna {
namespace {

using test::GgufBytes;

/// Letters, two merges and tokens of each kind that a file may name.
GgufBytes small_tokenizer() {
  GgufBytes file;
  file.text("tokenizer.ggml.model", "gpt2");
  file.text("tokenizer.ggml.pre", "qwen2");
  file.texts("tokenizer.ggml.tokens", {"a", "b", "c", "ab", "abc", "\u0120", "1", "2", "<|end|>", "<tool>"});
  file.numbers("tokenizer.ggml.token_type", {1, 1, 1, 1, 1, 1, 1, 1, 3, 4});
  file.texts("tokenizer.ggml.merges", {"a b", "ab c"});
  file.number("tokenizer.ggml.bos_token_id", 8);
  file.text("tokenizer.chat_template", "<|im_start|>system\\nYou help.<|im_end|>");
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
  EXPECT_EQ(of_file.format, ChatFormat::kChatMl);
  EXPECT_EQ(of_folder.format, of_file.format);
  EXPECT_EQ(of_folder.bos_token, "<|end|>");
  EXPECT_EQ(of_folder.bos_token, of_file.bos_token);
  EXPECT_EQ(of_folder.default_system, of_file.default_system);
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
}  // namespace lacuna
