// Bytes up to the first zero are a tokenizer.json, the rest is text for it. Whatever loads must encode
// without special tokens, and both of its directions must end.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lacuna;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string_view json = input.substr(0, input.find('\0'));
  const std::string_view text = input.substr(json.size());
  recognise_chat_template(json);
  try {
    const Tokenizer tokenizer = Tokenizer::from_json(json, "fuzz");
    for (const TokenId id : tokenizer.encode(text, SpecialTokens::kAsText)) {
      if (tokenizer.is_special(id)) std::abort();
    }
    tokenizer.decode(tokenizer.encode(text, SpecialTokens::kAsAtoms));
  } catch (const InputError&) {  // the one way to refuse
  }
  return 0;
}
