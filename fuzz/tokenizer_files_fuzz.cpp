// A folder with a tokenizer in any of its forms and a chat template; the file "text" is to be encoded.
// A tokenizer that loads must encode without special tokens, render a conversation, and decode its own
// encoding.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "fuzz.h"
#include "mutators.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

LACUNA_FUZZ_MUTATOR(fuzz::mutate_files)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lacuna;
  static const fuzz::ScratchFolder folder;
  const fuzz::Files files = fuzz::split_files(fuzz::text_of(data, size));
  folder.replace(files);
  std::string text = "Hello <|im_start|> world\n";
  for (const auto& [name, content] : files) {
    if (name == "text") text = content;
  }
  try {
    const Tokenizer tokenizer = Tokenizer::load(folder.path());
    for (const TokenId id : tokenizer.encode(text, SpecialTokens::kAsText)) {
      fuzz::check(id >= 0 && id < tokenizer.size() && !tokenizer.is_special(id));
    }
    const std::vector<TokenId> tokens = tokenizer.encode(text, SpecialTokens::kAsAtoms);
    fuzz::check(tokenizer.decode(tokens).size() == tokenizer.decoded_bytes(tokens));
    end_of_turn(tokenizer);
    const ChatTemplate chat_template = load_chat_template(folder.path());
    const std::vector<Message> messages = {{"user", text}, {"assistant", text}, {"user", "x"}};
    render(chat_template, tokenizer, messages);
  } catch (const InputError&) {  // the one way to refuse
  }
  return 0;
}
