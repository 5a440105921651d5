// config.json, generation_config.json, tokenizer_config.json, tokenizer.json, special_tokens_map.json and
// added_tokens.json, separated by zero bytes: refused with
// InputError, or sizes whose products fit and tokens inside the vocabulary.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "config_check.h"
#include "model/config.h"
#include "model/config_texts.h"
#include "model/families.h"
#include "mutators.h"

LACUNA_FUZZ_MUTATOR(fuzz::mutate_json_texts)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest = fuzz::text_of(data, size);
  lacuna::ConfigTexts texts;
  texts.config = fuzz::next_text(rest);
  texts.generation_config = fuzz::next_text(rest);
  texts.tokenizer_config = fuzz::next_text(rest);
  texts.tokenizer = fuzz::next_text(rest);
  texts.special_tokens_map = fuzz::next_text(rest);
  texts.added_tokens = fuzz::next_text(rest);
  try {
    const lacuna::ModelConfig config = lacuna::read_config_texts(texts, "fuzz");
    fuzz::check_config(config);
    lacuna::family_entry(config.family).tensors.layer(config.num_layers - 1);
  } catch (const lacuna::InputError&) {
  }
  return 0;
}
