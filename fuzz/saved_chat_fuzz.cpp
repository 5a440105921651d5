// A chat that `/save` wrote: refused with InputError, or a value that its own file gives again.
#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "fuzz.h"
#include "mutators.h"
#include "saved_chat.h"

LACUNA_FUZZ_MUTATOR(fuzz::mutate_json)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const lacuna::SavedChat chat = lacuna::parse_chat(fuzz::text_of(data, size), "chat.json");
    fuzz::check(chat.messages.size() % 2 == 0);
    fuzz::check(to_text(lacuna::parse_chat(to_text(chat), "its own text")) == to_text(chat));
  } catch (const lacuna::InputError&) {
  }
  return 0;
}
