// Bytes up to the first zero are a tokenizer.json, the rest is text for it. Whatever loads must encode
// without special tokens but that of unknown characters, and both of its directions must end.
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "fuzz.h"
#include "mutators.h"
#include "tokenizer/template_of.h"
#include "tokenizer/tokenizer.h"
#include "work.h"

LACUNA_FUZZ_MUTATOR(fuzz::mutate_json_texts)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lacuna;
  std::string_view text = fuzz::text_of(data, size);
  const fuzz::MeasuredWork work(size, {.base = 100'000, .per_byte = 20'000});
  const std::string_view json = fuzz::next_text(text);
  template_of(std::string(json));
  try {
    const Tokenizer tokenizer = Tokenizer::from_json(json, "fuzz");
    for (const TokenId id : tokenizer.encode(text, SpecialTokens::kAsText)) {
      fuzz::check(!tokenizer.is_special(id) || id == tokenizer.unknown());
    }
    tokenizer.decode(tokenizer.encode(text, SpecialTokens::kAsAtoms));
  } catch (const InputError&) {  // the one way to refuse
  }
  return 0;
}
